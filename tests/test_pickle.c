/* The restricted unpickler, opcode by opcode.  A builder that writes what it sees as text shows
 * what was made of a pickle: {a: 1} for dicts, [..] for lists, (..) for tuples. */
#include "pickle.h"
#include "test.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const words[] = {"a", "b", "c"};

/* The builder's self is the machine. */
static mr_value text_value(mr_pickle *p, const char *text)
{
    const uint32_t n = (uint32_t)strlen(text);
    return mr_v(MR_V_OWN, mr_texts_index(p->ctx, &p->texts, text, n));
}

static const char *show(mr_pickle *p, mr_value value)
{
    if (mr_v_kind(value) == MR_V_OWN) return p->texts.all.at[mr_v_index(value)].at;
    return mr_v_show(p, value);
}

static mr_value show_dict(void *self, const mr_field *fields, uint32_t n, uint64_t seen,
                          uint64_t offset)
{
    mr_pickle *p = self;
    const char *text = "{";
    (void)seen, (void)offset;
    for (uint32_t i = 0; i < n; i++)
        text = mr_printf(p->ctx, "%s%s%s: %s", text, i ? ", " : "", words[fields[i].key],
                         show(p, fields[i].value));
    return text_value(p, mr_printf(p->ctx, "%s}", text));
}

static void keep_items(void *self, mr_list *list, const mr_value *items, uint32_t n)
{
    mr_pickle_keep(self, list, items, n);
    list->items += n;
}

enum { REPEATED = 1 };

static bool repeat_list(void *self, mr_list *list, mr_value value)
{
    mr_pickle_keep(self, list, &value, 1);
    list->kind = REPEATED;
    list->items = 1;
    return true;
}

static mr_value show_list(void *self, const mr_list *list)
{
    mr_pickle *p = self;
    if (list->kind == REPEATED) return p->content.at[list->first];
    const char *text = list->tuple ? "(" : "[";
    for (uint32_t i = 0; i < list->n; i++)
        text = mr_printf(p->ctx, "%s%s%s", text, i ? ", " : "",
                         show(p, p->content.at[list->first + i]));
    return text_value(p, mr_printf(p->ctx, "%s%s", text, list->tuple ? ")" : "]"));
}

/* What the bytes make, or the failure: "file: byte N: sentence". */
static const char *run(mr_ctx *ctx, const char *bytes, size_t n)
{
    static const mr_builder builder = {.words = words,
                                       .keys = 3,
                                       .n_words = 3,
                                       .dict = show_dict,
                                       .items = keep_items,
                                       .list = show_list,
                                       .again = repeat_list};
    mr_source *source;
    mr_pickle *p = MR_NEW(ctx, mr_pickle);
    mr_value value = 0;
    if (mr_source_memory(ctx, "file", bytes, n, &source)) return ctx->failure.text;
    mr_pickle_init(ctx, p, source, &builder, p);
    const mr_status status = mr_pickle_run(p, &value);
    mr_source_close(source);
    if (status) return mr_printf(ctx, "%s: %s", ctx->failure.where, ctx->failure.text);
    if (mr_v_kind(value) == MR_V_OPEN)
        value = mr_pickle_complete(p, (uint32_t)mr_v_index(value));
    return show(p, value);
}

#define MAKES(bytes, expected)                                  \
    do {                                                        \
        mr_ctx ctx = {0};                                       \
        CHECK_STR(run(&ctx, bytes, sizeof(bytes) - 1), expected); \
        mr_ctx_clear(&ctx);                                     \
    } while (0)

#define FAILS(bytes, where, part)                               \
    do {                                                        \
        mr_ctx ctx = {0};                                       \
        const char *said = run(&ctx, bytes, sizeof(bytes) - 1); \
        CHECK_HAS(said, "file: byte " where ": ");              \
        CHECK_HAS(said, part);                                  \
        mr_ctx_clear(&ctx);                                     \
    } while (0)

TEST(constants)
{
    MAKES("N.", "None");
    MAKES("\x88.", "True");
    MAKES("\x89.", "False");
    MAKES("I01\n.", "True");
    MAKES("I00\n.", "False");
}

/* What is read by comparing it with what was there needs some bytes behind it. */
#define REST "N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0N0."
/* Places 1 and 2 of the memo. */
#define AB "\x8c\x01" "a" "\x94\x8c\x01" "b" "\x94"

TEST(dicts_with_the_keys_of_one_before)
{
#define BEGIN "\x80\x04]\x94(" AB "N}\x94(h\x01K\x01h\x02K\x02u}\x94(h\x01K\x03h\x02K\x04u"
#define MADE "[the text 'a', the text 'b', None, {a: 1, b: 2}, {a: 3, b: 4}, "
    MAKES(BEGIN "}\x94(h\x01M\x00\x01h\x02J\xff\xff\xff\xffue" REST, MADE "{a: 256, b: -1}]");
    MAKES(BEGIN "}\x94(h\x02K\x05h\x01K\x06ue" REST, MADE "{b: 5, a: 6}]");
    MAKES(BEGIN "}\x94(h\x01K\x05ue" REST, MADE "{a: 5}]");
    MAKES(BEGIN "}\x94(h\x01K\x05h\x02K\x06h\x01K\x07ue" REST, MADE "{a: 7, b: 6}]");
    MAKES(BEGIN "}\x94(h\x01Nh\x02\x88u(h\x01K\x07ue" REST, MADE "{a: 7, b: True}]");
    MAKES(BEGIN "}\x94(h\x01\x8a\x02\x00\x80h\x02]\x94ue" REST, MADE "{a: -32768, b: []}]");
    MAKES(BEGIN "}\x94(h\x01]\x94h\x02K\x01uh\x05h\x06" "e" REST,
          MADE "{a: [], b: 1}, {a: [], b: 1}, []]");
    MAKES(BEGIN "}\x94(h\x01h\x03h\x02h\x04ue" REST,
          MADE "{a: {a: 1, b: 2}, b: {a: 3, b: 4}}]");
    /* The place of `a` is filled again. */
    MAKES(BEGIN "\x8c\x01" "cq\x01" "0}\x94(h\x01K\x05h\x02K\x06ue" REST,
          MADE "{c: 5, b: 6}]");
    FAILS(BEGIN "}\x94(h\x01h\x63h\x02K\x01ue" REST, "43", "place 99 of the memo");
#undef BEGIN
#undef MADE
}

TEST(lists_that_were_there_before)
{
#define BEGIN "\x80\x04]\x94(" AB \
    "]\x94(h\x01h\x02" "e]\x94(h\x02h\x01" "eK\x00]\x94(h\x01h\x02" "e"
#define ONE "[the text 'a', the text 'b']"
#define TWO "[the text 'b', the text 'a']"
#define MADE "[the text 'a', the text 'b', " ONE ", " TWO ", 0, " ONE ", "
    MAKES(BEGIN "]\x94(h\x02h\x01" "e]\x94(h\x01h\x02" "ee" REST, MADE TWO ", " ONE "]");
    MAKES(BEGIN "]\x94(h\x01h\x02h\x02" "ee" REST,
          MADE "[the text 'a', the text 'b', the text 'b']]");
    MAKES(BEGIN "]\x94(h\x01" "ee" REST, MADE "[the text 'a']]");
    MAKES(BEGIN "K\x07q\x02" "0]\x94(h\x01h\x02" "ee" REST, MADE "[the text 'a', 7]]");
    FAILS(BEGIN "]\x94(h\x01h\x63" "ee" REST, "44", "place 99 of the memo");
#undef BEGIN
#undef ONE
#undef TWO
#undef MADE
}

TEST(whole_numbers_of_all_widths)
{
    MAKES("K\xff.", "255");
    MAKES("M\xff\xff.", "65535");
    MAKES("J\xff\xff\xff\xff.", "-1");
    MAKES("J\x00\x00\x00\x80.", "-2147483648");
    MAKES("J\xff\xff\xff\x7f.", "2147483647");
    MAKES("\x8a\x00.", "0");
    MAKES("\x8a\x01\xff.", "-1");
    MAKES("\x8a\x02\xff\x00.", "255");
    MAKES("\x8a\x06\x00\x00\x00\x00\x00\x7f.", "139637976727552");
    MAKES("\x8b\x02\x00\x00\x00\x00\x80.", "-32768");
    MAKES("I-12\n.", "-12");
    MAKES("I7\r\n.", "7");
    MAKES("L12345678901234567890L\n.", "12345678901234567890");
    MAKES("L5\n.", "5");
}

TEST(whole_numbers_at_their_limits)
{
    MAKES("\x8a\x07\xff\xff\xff\xff\xff\xff\x7f.", "36028797018963967");
    MAKES("\x8a\x08\x00\x00\x00\x00\x00\x00\x80\x00.", "36028797018963968");
    MAKES("\x8a\x07\x00\x00\x00\x00\x00\x00\x80.", "-36028797018963968");
    MAKES("\x8a\x08\xff\xff\xff\xff\xff\xff\x7f\xff.", "-36028797018963969");
    MAKES("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", "18446744073709551615");
    MAKES("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", "-9223372036854775808");
    MAKES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff.", "-9223372036854775808");
    FAILS("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff.", "0", "more than 64 bits");
    FAILS("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "0", "more than 64 bits");
    FAILS("\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "0", "10 bytes");
    FAILS("L18446744073709551616L\n.", "0", "18446744073709551616");
    FAILS("I-9223372036854775809\n.", "0", "64 bits");
    FAILS("Iabc\n.", "0", "abc");
    FAILS("I\n.", "0", "whole number");
}

TEST(floats)
{
    MAKES("G\x3f\xe0\x00\x00\x00\x00\x00\x00.", "0.5");
    MAKES("G\x3f\xe9\x99\x99\x99\x99\x99\x9a.", "0.8");
    MAKES("F0.25\n.", "0.25");
    FAILS("F0.25x\n.", "0", "no number");
}

TEST(texts_of_all_kinds)
{
    MAKES("\x8c\x02hi.", "the text 'hi'");
    MAKES("X\x02\x00\x00\x00hi.", "the text 'hi'");
    MAKES("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.", "the text 'hi'");
    MAKES("U\x02hi.", "the text 'hi'");
    MAKES("T\x02\x00\x00\x00hi.", "the text 'hi'");
    MAKES("S'h\\'\\\\\\x41'\n.", "the text 'h'\\A'");
    MAKES("S\"hi\"\n.", "the text 'hi'");
    MAKES("Vh\\u00e4\n.", "the text 'h\xc3\xa4'");
    MAKES("V\xe4\\U0001f600\n.", "the text '\xc3\xa4\xf0\x9f\x98\x80'");
    FAILS("Shi\n.", "0", "quotes");
    FAILS("S'\\q'\n.", "0", "escape");
    FAILS("V\\u12\n.", "0", "escape");
    MAKES("V\n.", "the text ''");
}

TEST(bytes_are_passed_over)
{
    MAKES("C\x02\x00\x01.", "a string of bytes");
    MAKES("B\x02\x00\x00\x00\x00\x01.", "a string of bytes");
    MAKES("\x8e\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "a string of bytes");
}

TEST(lists_in_every_way)
{
    MAKES("].", "[]");
    MAKES("]K\x01" "aK\x02" "a.", "[1, 2]");
    MAKES("](K\x01K\x02" "e(K\x03" "e.", "[1, 2, 3]");
    MAKES("(K\x01K\x02l.", "[1, 2]");
    MAKES("(lp0\nI1\naI2\na.", "[1, 2]");
    MAKES("]](K\x01" "eaK\x02" "a.", "[[1], 2]");
    MAKES("](](](K\x01" "ee]e.", "[[[1]], []]");
}

TEST(dicts_in_every_way)
{
    MAKES("}.", "{}");
    MAKES("}\x8c\x01" "aK\x01s.", "{a: 1}");
    MAKES("}(\x8c\x01" "aK\x01\x8c\x01" "bK\x02u\x8c\x01" "cNs.", "{a: 1, b: 2, c: None}");
    MAKES("(\x8c\x01" "a]d.", "{a: []}");
    MAKES("(dS'a'\n(lI5\nas.", "{a: [5]}");
}

TEST(the_last_of_equal_keys_counts_and_unknown_ones_are_dropped)
{
    MAKES("}(\x8c\x01" "aK\x01\x8c\x01" "zK\x02K\x07K\x08\x8c\x01" "aK\x03u.", "{a: 3}");
}

TEST(tuples_in_every_way)
{
    MAKES(").", "()");
    MAKES("K\x01\x85.", "(1)");
    MAKES("K\x01K\x02\x86.", "(1, 2)");
    MAKES("K\x01K\x02K\x03\x87.", "(1, 2, 3)");
    MAKES("(K\x01]K\x03K\x04t.", "(1, [], 3, 4)");
}

TEST(stack_operations)
{
    MAKES("K\x01K\x02" "0.", "1");
    MAKES("K\x01(K\x02]1.", "1");
    MAKES("K\x01(0.", "1");
    MAKES("](K\x07" "2e.", "[7, 7]");
    MAKES("](](K\x01" "e2e.", "[[1], [1]]");
}

TEST(the_memo_in_every_way)
{
    MAKES("](\x8c\x01x\x94h\x00" "e.", "[the text 'x', the text 'x']");
    MAKES("](\x8c\x01xq\x05j\x05\x00\x00\x00" "e.", "[the text 'x', the text 'x']");
    MAKES("](\x8c\x01xr\x05\x00\x00\x00h\x05" "e.", "[the text 'x', the text 'x']");
    MAKES("(S'x'\np3\ng3\nl.", "[the text 'x', the text 'x']");
    MAKES("](]\x94(K\x01" "eh\x00" "e.", "[[1], [1]]");
    MAKES("](}\x94\x8c\x01" "aK\x01sh\x00h\x00" "e.", "[{a: 1}, {a: 1}, {a: 1}]");
    MAKES("](]q\x00K\x01" "a0K\x05q\x00h\x00" "e.", "[5, 5]");
}

/* Picklers write the same empty list into a dict and, before it is complete, into its items. */
TEST(a_list_may_be_used_again_before_anything_took_it_in)
{
    MAKES("}(\x8c\x01" "a]\x94\x8c\x01" "b](h\x00h\x00" "eu.", "{a: [], b: [[], []]}");
    MAKES("](]\x94(K\x01" "e]h\x00" "a](K\x02" "ee.", "[[1], [[1]], [2]]");
}

TEST(what_contains_itself_is_refused)
{
    FAILS("]\x94h\x00" "a.", "4", "before it is complete");
    FAILS("}\x94(\x8c\x01" "ah\x00u.", "8", "before it is complete");
    FAILS("]\x94(](h\x00" "ee.", "8", "before it is complete");
    FAILS("](]\x94" "2h\x00K\x01" "ae.", "9", "before it is complete");
}

TEST(a_memo_cannot_grow_without_values)
{
    FAILS("Kar\xff\xff\xff\x7f.", "2", "memo");
    FAILS("K\x01p4294967296\n.", "2", "memo");
    FAILS("h\x00.", "0", "not filled");
    FAILS("j\xff\xff\xff\xff.", "0", "not filled");
    FAILS("g-1\n.", "0", "-1");
    mr_ctx ctx = {0};
    const size_t n = (size_t)1 << 22;
    char *bytes = mr_alloc(&ctx, n);
    memset(bytes, '\x94', n);
    bytes[0] = 'N';
    CHECK_HAS(run(&ctx, bytes, n), "remembered");
    mr_ctx_clear(&ctx);
}

TEST(opcodes_that_ask_for_more_than_data_are_refused_by_name)
{
    static const char codes[] = "cRbioPQ\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x96\x97\x98";
    static const char *const names[] = {
        "GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "PERSID", "BINPERSID", "NEWOBJ", "EXT1",
        "EXT2", "EXT4", "EMPTY_SET", "ADDITEMS", "FROZENSET", "NEWOBJ_EX", "STACK_GLOBAL",
        "BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER",
    };
    for (size_t i = 0; i < MR_COUNT(names); i++) {
        mr_ctx ctx = {0};
        const char bytes[] = {'N', codes[i], '.'};
        const char *said = run(&ctx, bytes, sizeof bytes);
        CHECK_HAS(said, mr_printf(&ctx, "file: byte 1: the opcode %s asks", names[i]));
        mr_ctx_clear(&ctx);
    }
}

TEST(bytes_that_are_no_opcode_are_refused)
{
    FAILS("N\x00.", "1", "0x00 is no opcode");
    FAILS("N\xff.", "1", "0xff is no opcode");
}

TEST(protocols_up_to_5_and_frames)
{
    MAKES("\x80\x05\x95\x02\x00\x00\x00\x00\x00\x00\x00N.", "None");
    FAILS("\x80\x06N.", "0", "protocol 6");
}

/* Every opcode with too little before it or behind it. */
TEST(a_file_that_ends_too_early_says_where)
{
    static const char whole[] = "\x80\x04\x95\x40\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01" "a"
                                "\x94](K\x01M\x02\x00J\x03\x00\x00\x00\x8a\x06\x00\x00\x00\x00"
                                "\x00\x7fG\x3f\xe0\x00\x00\x00\x00\x00\x00X\x02\x00\x00\x00hi"
                                "I12\nh\x01j\x01\x00\x00\x00" "eu.";
    MAKES(whole, "{a: [1, 2, 3, 139637976727552, 0.5, the text 'hi', 12, the text 'a',"
                 " the text 'a']}");
    for (size_t n = 1; n < sizeof whole - 1; n++) {
        mr_ctx ctx = {0};
        const char *said = run(&ctx, whole, n);
        CHECK_HAS(said, mr_printf(&ctx, "file: byte %zu: the file ends here, expected", n));
        mr_ctx_clear(&ctx);
    }
}

TEST(operands_that_are_not_there_are_missed)
{
    FAILS("0.", "0", "POP");
    FAILS("2.", "0", "DUP");
    FAILS("1.", "0", "MARK");
    FAILS("e.", "0", "MARK");
    FAILS("(e.", "1", "nothing");
    FAILS("K\x01" "a.", "2", "nothing");
    FAILS("}K\x01" "a.", "3", "a list");
    FAILS("]K\x01K\x02s.", "5", "a dict");
    FAILS("K\x05K\x01" "a.", "4", "5");
    FAILS("}(K\x01u.", "4", "even number");
    FAILS("K\x01\x86.", "2", "2 values");
    FAILS("K\x01(\x85.", "3", "1 values");
    FAILS("q\x00.", "0", "1 values");
    FAILS(".", "0", "one value");
    FAILS("NN.", "2", "2 values");
    FAILS("N(.", "2", "1 marks");
}

TEST(nesting_is_bounded)
{
    mr_ctx ctx = {0};
    char deep[3000];
    memset(deep, '(', sizeof deep);
    CHECK_HAS(run(&ctx, deep, sizeof deep), "file: byte 1000: ");
    const size_t n = (size_t)3 << 20;
    char *wide = mr_alloc(&ctx, n);
    memset(wide, ']', n);
    CHECK_HAS(run(&ctx, wide, n), "file: byte 1048576: ");
    mr_ctx_clear(&ctx);
}

TEST(long_texts_are_not_kept)
{
    mr_ctx ctx = {0};
    const uint32_t n = 5u << 20;
    char *bytes = mr_alloc(&ctx, n + 6);
    memset(bytes, 'x', n + 5);
    memcpy(bytes, "X\x00\x00\x50\x00", 5);
    bytes[n + 5] = '.';
    CHECK_STR(run(&ctx, bytes, n + 6), "a text of more than 65,536 bytes");
    CHECK_HAS(run(&ctx, bytes, n), "file: byte 5242880: the file ends here");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
