/* commands.h -- what a subcommand is, the options it takes, and what several of them share.
 *
 * A subcommand is one file cmd_<name>.c with one descriptor at its end, and one word in
 * MR_COMMANDS.  Parsing, --help and did-you-mean follow from its table of options.
 */
#ifndef MR_COMMANDS_H
#define MR_COMMANDS_H

#include "evaluate.h"

/* ---- options ----------------------------------------------------------------------------- */

typedef MR_VEC(const char *) mr_words;

/* Values of all options of all subcommands; which of them one takes is said by its table. */
typedef struct mr_args {
    mr_words words; /* what is not an option: FILE, SPEC... */
    const char *device;       /* name of a row of devices.csv; NULL: not given */
    uint64_t capacity;        /* bytes; 0: not given */
    uint64_t cuda_device;     /* of the recording; MR_NONE: all */
    uint64_t iterations;      /* 0: not given */
    const char *next_batch;   /* early, late, same; NULL: not given */
    const char *from, *to;    /* "1200" an event, "1.5s" a time; NULL: not cut */
    mr_words alloc_conf;      /* texts of PYTORCH_CUDA_ALLOC_CONF */
    bool fit, as_recorded;
    mr_words with, without;   /* advise: settings to try as well, and not to try */
    uint64_t max_peak;        /* bytes reserved that a row may take; 0: any */
    bool strict;              /* sweep: a claim that is not confirmed is a failure */
    const char *tf32;         /* conv, all, off */
    const char *on;           /* model, cuda */
    const char *compute;      /* none, touch, full: what ops do on a device; NULL: not given */
    bool verify;              /* the bytes that a device reads */
    uint64_t limit;           /* bytes of a device that are left; 0: all */
    uint64_t gpu;             /* calibrate: number of the machine's device */
    const char *gpus;         /* "0" or "0,1,2": of the machine; NULL: not given */
    const char *format;       /* table, csv, json, md */
    const char *output;       /* file or folder; NULL: standard output */
    uint64_t jobs;            /* threads */
    const char *times;        /* profiler trace with the durations of an execution trace's ops */
    const char *ends;         /* exclusive, inclusive; NULL: not given, exclusive */
    const char *reader;       /* name of a format of recordings; NULL: told by content */
    uint64_t top;             /* length of lists */
    const char *axis;         /* events, time; NULL: what suits the recording */
    const char *colour;       /* size, role, stack, stream; NULL: likewise */
    const char *by, *at;      /* info: which list, NULL: a page of all; and at which moment */
    uint64_t rows, depth;     /* info: how much of it; 0: what suits */
    uint64_t seconds, align;  /* plan: time to search, 0 for a fixed amount of work */
    bool minimize, fixed;     /* plan: until proven; keep offsets that a table gives */
} mr_args;

typedef enum mr_option_type {
    MR_OPTION_SWITCH, /* bool */
    MR_OPTION_TEXT,   /* const char * */
    MR_OPTION_TEXTS,  /* mr_words, may be repeated */
    MR_OPTION_NUMBER, /* uint64_t */
    MR_OPTION_SIZE,   /* uint64_t bytes; written 512, 2MiB, 24GiB */
    MR_OPTION_MEMORY, /* the same of a device: what is small has a unit, as it may lack one */
    MR_OPTION_CHOICE, /* const char *, one of the words in `argument` "a|b|c" */
} mr_option_type;

typedef struct mr_option {
    const char *name;     /* without dashes */
    char letter;          /* short form, 0 for none */
    mr_option_type type;
    size_t offset;        /* into mr_args */
    uint64_t low, high;   /* of numbers, inclusive */
    const char *argument; /* what its value is called in the help; NULL for a switch */
    const char *help;
} mr_option;

/* One row of a subcommand's table, which ends with {0}. */
#define MR_OPTION(name, letter, TYPE, field, low, high, argument, help)                        \
    {name, letter, MR_OPTION_##TYPE, offsetof(mr_args, field), low, high, argument, help}

/* How a recording is read; all subcommands that take one have these. */
#define MR_OPTIONS_READING                                                                     \
    MR_OPTION("format-of", 0, TEXT, reader, 0, 0, "NAME",                                      \
              "read FILE as this format instead of telling by content"),                       \
    MR_OPTION("ends", 0, CHOICE, ends, 0, 0, "exclusive|inclusive",                            \
              "lifetime tables: whether `upper` is still in use (default exclusive)")

#define MR_OPTION_CUT                                                                          \
    MR_OPTION("from", 0, TEXT, from, 0, 0, "WHERE",                                            \
              "cut: first event, as its number (1200) or a time (1.5s)"),                      \
    MR_OPTION("to", 0, TEXT, to, 0, 0, "WHERE", "cut: the event or time to stop before")

#define MR_OPTION_CUDA_DEVICE                                                                  \
    MR_OPTION("cuda-device", 0, NUMBER, cuda_device, 0, 65535, "N",                            \
              "only this device of the recording (default: all, one after another)")

#define MR_OPTION_DEVICE                                                                       \
    MR_OPTION("device", 'd', TEXT, device, 0, 0, "NAME",                                       \
              "GPU to predict for: its memory, context and costs (memreuse list devices)")

#define MR_OPTION_CAPACITY                                                                     \
    MR_OPTION("capacity", 'c', MEMORY, capacity, 1, UINT64_MAX, "SIZE",                        \
              "memory the process can have beside its CUDA context, such as 22GiB")

/* What is replayed, and on what. */
#define MR_OPTIONS_REPLAY                                                                      \
    MR_OPTION_DEVICE,                                                                          \
    MR_OPTION_CAPACITY,                                                                        \
    MR_OPTION_CUDA_DEVICE,                                                                     \
    MR_OPTION("iterations", 'n', NUMBER, iterations, 1, 1000000, "N",                          \
              "repeat the recording N times without resetting the allocator (3 where ops "     \
              "were recorded, else 1).  One may take more than three: in it all that the step " \
              "found is there at once, of several the first begins as a program does"),        \
    MR_OPTION("next-batch", 0, CHOICE, next_batch, 0, 0, "early|late|same",                    \
              "between iterations: the next batch is there before the last one goes (early, "  \
              "the default), comes when it has gone (late), or is copied to its place (same)"), \
    MR_OPTION("as-recorded", 0, SWITCH, as_recorded, 0, 0, NULL,                               \
              "begin with the segments that the recorded allocator held, not with nothing"),   \
    MR_OPTION_CUT

#define MR_OPTION_TF32                                                                         \
    MR_OPTION("tf32", 0, CHOICE, tf32, 0, 0, "conv|all|off",                                   \
              "fp32 work done in TF32 where the device can: convolutions (default, as "        \
              "PyTorch), matrix products too, none")

#define MR_OPTION_OUTPUT                                                                       \
    MR_OPTION("output", 'o', TEXT, output, 0, 0, "FILE", "write there instead of printing")

#define MR_OPTION_ALLOC_CONF                                                                   \
    MR_OPTION("alloc-conf", 0, TEXTS, alloc_conf, 0, 0, "TEXT",                                \
              "add a row with this PYTORCH_CUDA_ALLOC_CONF; may be repeated")

#define MR_OPTION_ON                                                                           \
    MR_OPTION("on", 0, CHOICE, on, 0, 0, "model|cuda",                                         \
              "predict (model), or carry it out on a GPU of this machine as well")

/* Carrying out on a device of the machine. */
#define MR_OPTIONS_MEASURE                                                                     \
    MR_OPTION("compute", 0, CHOICE, compute, 0, 0, "none|touch|full",                          \
              "on a GPU: run no ops, let each read and write its tensors once (default), or "  \
              "compute products by cuBLAS and let others that compute take their time"),       \
    MR_OPTION("verify", 0, SWITCH, verify, 0, 0, NULL,                                         \
              "on a GPU: hold every byte that is read against what was written"),              \
    MR_OPTION("limit", 0, MEMORY, limit, 1, UINT64_MAX, "SIZE",                                \
              "on a GPU: leave so much of its memory, as if it were a smaller one"),           \
    MR_OPTION("gpu", 0, TEXT, gpus, 0, 0, "N[,N...]",                                          \
              "which GPU of this machine (default 0), or one for each device of the recording, "  \
              "all at once")

#define MR_OPTION_JOBS                                                                         \
    MR_OPTION("jobs", 'j', NUMBER, jobs, 1, 1024, "N", "threads (default: one per processor)")

/* ---- subcommands ------------------------------------------------------------------------- */

typedef struct mr_command {
    const char *name;
    const char *usage;        /* what follows the name: "FILE [SPEC...]" */
    const char *summary;      /* one line */
    const char *more;         /* further paragraphs of its help; may be NULL */
    const mr_option *options; /* NULL when there are none beside --help */
    uint32_t words_min, words_max; /* how many words it takes */
    /* Writes its results to standard output.  *answer is the exit code of a run that went
     * well: 0 unless the command sets it, as check does when it finds a difference. */
    mr_status (*run)(mr_ctx *ctx, const mr_args *args, int *answer);
    void (*help)(mr_ctx *ctx); /* prints more to the end of its help; may be NULL */
} mr_command;

#define MR_COMMANDS(X)                                                                         \
    X(list) X(info) X(compare) X(advise) X(sweep) X(explain) X(check) X(convert) X(plan) X(plot)         \
    X(calibrate) X(fidelity)

#define X(name) extern const mr_command mr_command_##name;
MR_COMMANDS(X)
#undef X

extern const mr_command *const mr_commands[]; /* ends with NULL */

/* Reads what stands behind the subcommand.  MR_EUSAGE with a sentence; sets *help instead of
 * complaining when --help is among it. */
mr_status mr_args_parse(mr_ctx *ctx, const mr_command *command, int argc, char *const argv[],
                        mr_args *out, bool *help);
void mr_args_help(mr_ctx *ctx, const mr_command *command); /* to standard output */

/* ---- devices ----------------------------------------------------------------------------- */

/* Whose context and costs are shown when nobody names a device. */
#define MR_ASSUMED_DEVICE "a100-80"

/* Rows of devices.csv, which is built into the program; ends with a row whose name is NULL. */
mr_status mr_devices(mr_ctx *ctx, const mr_device **out, uint32_t *n);
/* By its name, or by a part of name or description that only one has, in any case and with any
 * marks: "A100-SXM4-80GB".  MR_EUSAGE with the nearest names. */
mr_status mr_device_find(mr_ctx *ctx, const char *name, mr_device *out);
mr_tf32 mr_tf32_named(const char *word); /* conv, all, off */

/* ---- what a command line asks to be replayed --------------------------------------------- */

typedef struct mr_scene {
    mr_trace trace;
    mr_device device;       /* given, or the one assumed */
    bool device_assumed;    /* nobody named it: only context and costs come from it */
    uint64_t capacity;      /* UINT64_MAX: no limit */
    const uint32_t *cuda_devices; /* of the recording: the one asked for, or all not idle */
    uint32_t cuda_device_count;
    uint32_t iterations;
    mr_batches batches;
    bool is_part;     /* cut with --from or --to */
    bool as_recorded; /* begin with the state that the recorded allocator had */
} mr_scene;

/* mr_evaluate with progress on a terminal. */
mr_status mr_scene_evaluate(mr_ctx *ctx, const mr_question *question, mr_answer *answer);
/* Reads FILE (args->words.at[0]), cuts it, looks up the device. */
mr_status mr_scene_read(mr_ctx *ctx, const mr_args *args, mr_scene *out);
/* Iterations of a prediction when nobody says how many: of a step with operators so many that
 * the allocator's cache is warm, as in training; an allocator's history is a run already. */
uint32_t mr_usual_iterations(const mr_trace *trace);
/* So many, unless the command line says otherwise. */
void mr_scene_repeat(const mr_args *args, mr_scene *scene);
/* ", 3 iterations" for a head; "" for one. */
const char *mr_show_iterations(mr_ctx *ctx, uint32_t iterations);
/* Does a device of the recording only keep what it had before the first event? */
bool mr_scene_is_idle(const mr_trace *trace, uint32_t cuda_device);
/* Parses one spec against the built-in strategies. */
mr_status mr_scene_spec(mr_ctx *ctx, const char *text, mr_spec *out);
/* Likewise, of a word of the command line, which may be a file by mistake. */
mr_status mr_scene_spec_asked(mr_ctx *ctx, const char *text, mr_spec *out);
typedef MR_VEC(mr_spec) mr_specs;

/* Adds what the list does not have yet, in whatever spelling.  MR_EUSAGE where the text is none. */
mr_status mr_specs_add(mr_ctx *ctx, const char *text, mr_specs *list);
/* Specs of the command line from word `first` on, then one for every --alloc-conf. */
mr_status mr_scene_specs(mr_ctx *ctx, const mr_args *args, uint32_t first, mr_words *out);
/* pytorch with the text of a PYTORCH_CUDA_ALLOC_CONF as its options; MR_EUSAGE for what PyTorch
 * does not accept, except where a recording says that it did. */
mr_status mr_conf_spec(mr_ctx *ctx, const char *conf, const char **out);
const char *mr_conf_spec_recorded(mr_ctx *ctx, const char *conf);
/* A placement "spec" with "name=value": "spec:arg", or "spec,arg" where it has one; where it has
 * that already, with this value instead. */
const char *mr_spec_with(mr_ctx *ctx, const char *spec, const char *arg);
/* Releases 2.x of PyTorch that may have made the recording; false when it says nothing. */
bool mr_scene_releases(const mr_trace *trace, unsigned *oldest, unsigned *newest);
/* A sentence where a spec names no release and is of another than the recording; else NULL. */
const char *mr_scene_release_note(mr_ctx *ctx, const mr_trace *trace, const mr_spec *spec);
const char *mr_scene_with_release(mr_ctx *ctx, const char *spec, unsigned minor);
/* pytorch with the allocator settings that the recording was made with: of no release, and of
 * the newest that may have made it. */
const char *mr_scene_conf_spec(mr_ctx *ctx, const mr_trace *trace);
const char *mr_scene_recorded_spec(mr_ctx *ctx, const mr_trace *trace);
/* pytorch of the same release with one option instead; NULL for none. */
const char *mr_scene_pytorch_spec(mr_ctx *ctx, const mr_trace *trace, const char *option);
/* The same for one device of the recording, whichever the cells of a comparison name. */
const mr_scene *mr_scene_alone(mr_ctx *ctx, const mr_scene *scene);
/* The question for a spec on one device of the recording. */
mr_question mr_scene_question(const mr_scene *scene, const mr_spec *spec, uint32_t cuda_device);

/* MR_EUSAGE where the file to write is the one to read. */
mr_status mr_output_check(mr_ctx *ctx, const char *input, const char *output);

/* How files begin that a command has written, and what they are. */
typedef struct mr_heads {
    const char *begin[2];
    uint32_t n;
    const char *what; /* "a table of ..." */
} mr_heads;

/* Does the file begin with this text, such as the heading of a table? */
bool mr_file_begins(mr_ctx *ctx, const char *path, const char *text);
/* MR_EUSAGE where a file would be written over that is of another kind. */
mr_status mr_output_replaces(mr_ctx *ctx, const char *output, const mr_heads *heads);

/* Between these two Ctrl-C waits, so that no file stays half-written. */
void mr_signals_hold(void);
void mr_signals_let(void);
bool mr_signal_waits(void); /* somebody wants the program to end */

/* What held memory looks like after the first `commands` commands: used and free pieces in the
 * order of segments and offsets; a free piece is as long as it can be. */
void mr_pieces_after(mr_ctx *ctx, const mr_placement *placement, uint32_t commands,
                     mr_pieces *out);

/* Number that an event of a schedule's first iteration has in the recording. */
uint32_t mr_recorded_event(const mr_schedule *schedule, uint32_t event);

/* A part of a recording as a recording of its own: events [first, end). */
mr_status mr_trace_cut(mr_ctx *ctx, const mr_trace *in, uint32_t first, uint32_t end,
                       mr_trace *out);

#endif
