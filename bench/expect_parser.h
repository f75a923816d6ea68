/* expect_parser.h -- the state in which an expectation is parsed, shared by its parts. */
#ifndef MR_EXPECT_PARSER_H
#define MR_EXPECT_PARSER_H

#include "sweep.h"

typedef struct mr_expect_parser {
    mr_ctx *ctx;
    const mr_lines *lines;
    const mr_suite *suite;
    const mr_claim *claim;
    const char *text, *at;
    mr_place place; /* of the text */
    mr_expect *out;
    bool many;       /* below min or max: a group of specs may stand for one */
    uint32_t many_n; /* specs of the groups there, which must be equally many */
    bool percent;    /* the number read last was written so */
} mr_expect_parser;

#define mr_expect_fail(p, place_, ...) \
    mr_lines_fail((p)->lines, (place_).line, (place_).column, __VA_ARGS__)

/* ---- signs ------------------------------------------------------------------------------- */

mr_place mr_expect_here(const mr_expect_parser *p);
void mr_expect_skip(mr_expect_parser *p); /* blanks */
bool mr_expect_is_letter(char c);
/* Takes the sign or word if it stands next. */
bool mr_expect_accept(mr_expect_parser *p, const char *sign);
mr_status mr_expect_need(mr_expect_parser *p, const char *sign);

/* ---- leaves of the tree ------------------------------------------------------------------ */

mr_expr *mr_expect_new(mr_expect_parser *p, mr_expr_kind kind, mr_place place);
mr_status mr_expect_number(mr_expect_parser *p, const mr_expr **out);
/* What stands behind its name. */
mr_status mr_expect_cell(mr_expect_parser *p, const char *name, mr_place begin,
                         const mr_expr **out);

#endif
