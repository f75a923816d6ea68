// ptdriver.cpp -- feeds a script of operations to the real PyTorch caching allocator, which
// runs on the fake CUDA runtime, and prints what it did.
//
//   ptdriver [--version V] SCRIPT      ("-" reads standard input)
//
// One operation a line; "#" starts a comment. Streams are small numbers, 0 is the default
// stream. Block names are arbitrary words.
//
//   start STRING           PYTORCH_CUDA_ALLOC_CONF at the start of the program (first
//   operation) conf STRING            setAllocatorSettings(STRING) fraction F
//   setMemoryFraction(F) alloc NAME BYTES [S]   allocate on stream S free NAME record NAME S
//   recordStream: the block is also used on stream S advance S|all [N]      the next N
//   (default: all) items of S are finished events manual|auto     do recorded events wait for
//   "advance"? sync S                 cudaStreamSynchronize empty [K] emptyCache(), of pool K
//   alone where the version can addr HEX               address for the next cudaMalloc external
//   BYTES         memory taken by somebody else on the device fail N                 the next N
//   calls of cudaMalloc fail pool_create K [use_on_oom] [no_split]   a MemPool is made: one
//   holder of pool K pool_begin K [S|any]   divert allocations (of stream S) to pool K; one
//   more holder pool_end K pool_release K         one holder less capture_begin [S] |
//   capture_end [S]     stream S (default: 0) is captured and current reserve_class S NAME
//   stream S belongs to a class of reservations annotate NAME WORD     annotation of a live
//   block reset_peak | reset_acc stats                  all statistics snapshot segments and
//   blocks trace                  the allocator's own trace since the last "trace" quiet on|off
//   print a line per operation or not
//
// The line printed for an operation ends in the running totals
//   A allocated  C active  Q requested  R reserved  I inactive split (bytes)
//   S segments   M device allocation calls   F device free calls
// An operation that the allocator refuses prints "error: " and the first clause of its message;
// a refused option is passed over like in a program that catches the exception, any other
// refusal ends the run, because the allocator is in no defined state after it.
#include "fakecuda.h"
#include "start.h"

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace cca = c10::cuda::CUDACachingAllocator;
using Alloc = cca::CUDAAllocator;
using PoolId = std::pair<unsigned long long, unsigned long long>;

// ---- differences between versions, found out at compile time --------------------------------
[[noreturn]] static void lacking(const char *what)
{
    throw std::runtime_error(std::string("this version has no ") + what);
}

template <class A> void start_history(A *a, size_t n)
{
    const auto never = cca::RecordContext::NEVER;
    if constexpr (requires { a->recordHistory(true, nullptr, n, never, false, {}); })
        a->recordHistory(true, nullptr, n, never, false, {});
    else if constexpr (requires { a->recordHistory(true, nullptr, n, never, false); })
        a->recordHistory(true, nullptr, n, never, false);
    else a->recordHistory(true, nullptr, n, never);
}

template <class A> void hold_pool(A *a, PoolId id)
{
    if constexpr (requires { a->createOrIncrefPool(0, id); }) a->createOrIncrefPool(0, id);
    else if constexpr (requires { a->ensureExistsAndIncrefPool(0, id); })
        a->ensureExistsAndIncrefPool(0, id);
    else lacking("pool_create");
}

template <class A> void use_on_oom(A *a, PoolId id)
{
    if constexpr (requires { a->setUseOnOOM(0, id, true); }) a->setUseOnOOM(0, id, true);
    else if constexpr (requires { a->setUseOnOOM(0, id); }) a->setUseOnOOM(0, id);
    else lacking("use_on_oom");
}

template <class A> void no_split(A *a, PoolId id)
{
    if constexpr (requires { a->setNoSplit(0, id); }) a->setNoSplit(0, id);
    else lacking("no_split");
}

template <class A> void mark_capture(A *a, bool begin)
{
    if constexpr (requires { a->markCaptureBegin(0); })
        begin ? a->markCaptureBegin(0) : a->markCaptureEnd(0);
}

template <class A> void empty_pool(A *a, PoolId id)
{
    if constexpr (requires { a->emptyCache(id); }) a->emptyCache(id);
    else lacking("emptyCache of one pool");
}

template <class A> void annotate(A *a, const void *p, const std::string &word)
{
    if constexpr (requires { a->annotateMemory(p, word); }) a->annotateMemory(p, word);
    else lacking("annotateMemory");
}

#ifdef HAVE_RESERVE_CLASS
static void reserve_class(cudaStream_t s, const std::string &name)
{
    cca::setExpandableSegmentReserveClassForStream(s, name);
}
#else
static void reserve_class(cudaStream_t, const std::string &)
{
    lacking("reserve classes");
}
#endif

template <class D> int64_t rejections(const D &d)
{
    if constexpr (requires { d.num_oom_rejections; }) return d.num_oom_rejections;
    else return -1;
}

// ---- streams and blocks by name
// --------------------------------------------------------------
static std::map<std::string, void *> live;
static std::vector<cudaStream_t> streams{nullptr};
static size_t trace_seen;
static bool quiet;

static cudaStream_t stream(const std::string &word)
{
    size_t i = word.empty() ? 0 : std::strtoul(word.c_str(), nullptr, 10);
    while (streams.size() <= i) {
        cudaStream_t s;
        cudaStreamCreateWithPriority(&s, 1, 0);
        streams.push_back(s);
    }
    return streams[i];
}

static int stream_no(const void *s)
{
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == s) return (int)i;
    return -1;
}

static uint64_t number(const std::string &word)
{
    return std::strtoull(word.c_str(), nullptr, 0);
}

static PoolId pool(const std::string &word)
{
    return {0, number(word)};
}

// ---- reports
// ---------------------------------------------------------------------------------
static void print_totals()
{
    auto d = cca::get()->getDeviceStats(0);
    auto cur = [](const auto &a) { return (long long)a[0].current; };
    std::printf(" | A=%lld C=%lld Q=%lld R=%lld I=%lld S=%lld M=%lld F=%lld\n",
                cur(d.allocated_bytes), cur(d.active_bytes), cur(d.requested_bytes),
                cur(d.reserved_bytes), cur(d.inactive_split_bytes), cur(d.segment),
                (long long)d.num_device_alloc, (long long)d.num_device_free);
}

template <class S> void print_stat(const std::string &name, const S &s)
{
    std::printf("stat %s current=%lld peak=%lld allocated=%lld freed=%lld\n", name.c_str(),
                (long long)s.current, (long long)s.peak, (long long)s.allocated,
                (long long)s.freed);
}

static void print_device()
{
    fc_counters c;
    fc_get_counters(0, &c);
    std::printf("device used=%" PRIu64 " peak=%" PRIu64 " malloc=%" PRIu64 " vmm=%" PRIu64
                " calls malloc=%" PRIu64 " (failed %" PRIu64 ") free=%" PRIu64
                " create=%" PRIu64 " (failed %" PRIu64 ") map=%" PRIu64 " unmap=%" PRIu64
                " reserve=%" PRIu64 "\n",
                c.used, c.used_peak, c.used_malloc, c.used_vmm, c.n_malloc, c.n_malloc_fail,
                c.n_free, c.n_create, c.n_create_fail, c.n_map, c.n_unmap, c.n_reserve);
}

static void print_stats()
{
    auto d = cca::get()->getDeviceStats(0);
    static const char *kind[] = {".all", ".small_pool", ".large_pool"};
    auto arr = [&](const std::string &name, const auto &a) {
        for (size_t k = 0; k < 3; k++) print_stat(name + kind[k], a[k]);
    };
    arr("allocation", d.allocation);
    arr("segment", d.segment);
    arr("active", d.active);
    arr("inactive_split", d.inactive_split);
    arr("allocated_bytes", d.allocated_bytes);
    arr("reserved_bytes", d.reserved_bytes);
    arr("active_bytes", d.active_bytes);
    arr("inactive_split_bytes", d.inactive_split_bytes);
    arr("requested_bytes", d.requested_bytes);
    print_stat("oversize_allocations", d.oversize_allocations);
    print_stat("oversize_segments", d.oversize_segments);
    std::printf("stat num_alloc_retries=%lld num_ooms=%lld max_split_size=%lld "
                "num_sync_all_streams=%lld num_device_alloc=%lld num_device_free=%lld "
                "num_oom_rejections=%lld\n",
                (long long)d.num_alloc_retries, (long long)d.num_ooms,
                (long long)d.max_split_size, (long long)d.num_sync_all_streams,
                (long long)d.num_device_alloc, (long long)d.num_device_free,
                (long long)rejections(d));
    print_device();
}

template <class S> void print_segment(const S &s)
{
    auto at = (unsigned long long)s.address;
    std::printf("segment %#llx total=%lld allocated=%lld active=%lld requested=%lld stream=%d "
                "%s%s pool=%llu,%llu\n",
                at, (long long)s.total_size, (long long)s.allocated_size,
                (long long)s.active_size, (long long)s.requested_size,
                stream_no((const void *)s.stream), s.is_large ? "large" : "small",
                s.is_expandable ? " expandable" : "",
                (unsigned long long)s.owner_private_pool_id.first,
                (unsigned long long)s.owner_private_pool_id.second);
    for (const auto &b : s.blocks) {
        std::printf("  block %#llx size=%lld requested=%lld %s\n", at, (long long)b.size,
                    (long long)b.requested_size,
                    b.allocated ? "active_allocated"
                    : b.active  ? "active_pending_free"
                                : "inactive");
        at += (unsigned long long)b.size;
    }
}

static void print_snapshot()
{
    auto snap = cca::get()->snapshot();
    for (const auto &s : snap.segments) print_segment(s);
}

static void print_trace()
{
    auto snap = cca::get()->snapshot();
    static const char *name[] = {
        "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
        "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};
    if (snap.device_traces.empty()) return;
    const auto &t = snap.device_traces[0];
    for (; trace_seen < t.size(); trace_seen++) {
        const auto &e = t[trace_seen];
        auto k = (size_t)e.action_;
        std::printf("trace %s %#llx %lld stream=%d\n",
                    k < sizeof name / sizeof *name ? name[k] : "other",
                    (unsigned long long)e.addr_, (long long)e.size_,
                    stream_no((const void *)e.stream_));
    }
}

// ---- operations
// ------------------------------------------------------------------------------
struct Args {
    std::string a, b, c;
};

static std::string hex(const void *p)
{
    char buf[32];
    std::snprintf(buf, sizeof buf, "%#llx", (unsigned long long)(uintptr_t)p);
    return buf;
}

static std::string do_alloc(const Args &w)
{
    try {
        void *p = cca::get()->raw_alloc_with_stream(number(w.b), stream(w.c));
        live[w.a] = p;
        return hex(p);
    } catch (const c10::OutOfMemoryError &) {
        return "oom";
    }
}

static std::string do_free(const Args &w)
{
    auto it = live.find(w.a);
    if (it == live.end()) return "unknown";
    cca::get()->raw_delete(it->second);
    live.erase(it);
    return "ok";
}

static std::string do_record(const Args &w)
{
    auto it = live.find(w.a);
    if (it == live.end()) return "unknown";
    c10::DataPtr dp(it->second, it->second, cca::get()->raw_deleter(),
                    c10::Device(c10::DeviceType::CUDA, 0));
    cca::get()->recordStream(dp, c10::cuda::getStreamFromExternal(stream(w.b), 0));
    dp.release_context(); // the block stays ours
    return "ok";
}

static std::string do_annotate(const Args &w)
{
    auto it = live.find(w.a);
    if (it == live.end()) return "unknown";
    annotate(cca::get(), it->second, w.b);
    return "ok";
}

static std::string do_conf(const Args &w)
{
    cca::setAllocatorSettings(w.a);
    return "ok";
}

static std::string do_fraction(const Args &w)
{
    cca::get()->setMemoryFraction(std::strtod(w.a.c_str(), nullptr), 0);
    return "ok";
}

static std::string do_advance(const Args &w)
{
    if (w.a == "all") fc_device_sync(-1);
    else fc_stream_advance(stream(w.a), w.b.empty() ? 0 : number(w.b));
    return "ok";
}

static std::string do_events(const Args &w)
{
    fc_set_completion(w.a == "manual" ? FC_MANUAL : FC_IMMEDIATE);
    return "ok";
}

static std::string do_sync(const Args &w)
{
    cudaStreamSynchronize(stream(w.a));
    return "ok";
}

static std::string do_empty(const Args &w)
{
    if (w.a.empty()) cca::get()->emptyCache();
    else empty_pool(cca::get(), pool(w.a));
    return "ok";
}

static std::string do_addr(const Args &w)
{
    fc_set_next_malloc_addr(std::strtoull(w.a.c_str(), nullptr, 16));
    return "ok";
}

static std::string do_external(const Args &w)
{
    fc_set_external(0, number(w.a));
    return "ok";
}

static std::string do_fail(const Args &w)
{
    fc_fail_next_mallocs((int)number(w.a));
    return "ok";
}

static std::string do_pool_create(const Args &w)
{
    hold_pool(cca::get(), pool(w.a));
    if (w.b == "use_on_oom" || w.c == "use_on_oom") use_on_oom(cca::get(), pool(w.a));
    if (w.b == "no_split" || w.c == "no_split") no_split(cca::get(), pool(w.a));
    return "ok";
}

static std::string do_pool_begin(const Args &w)
{
    bool any = w.b.empty() || w.b == "any";
    cudaStream_t s = any ? nullptr : stream(w.b);
    cca::get()->beginAllocateToPool(0, pool(w.a),
                                    [any, s](cudaStream_t q) { return any || q == s; });
    return "ok";
}

static std::string do_pool_end(const Args &w)
{
    cca::get()->endAllocateToPool(0, pool(w.a));
    return "ok";
}

static std::string do_pool_release(const Args &w)
{
    cca::get()->releasePool(0, pool(w.a));
    return "ok";
}

// As CUDAGraph does it: the captured stream is the current one, and the allocator is told after
// the capture began and before it ends. Newer versions ask for both.
static std::string do_capture_begin(const Args &w)
{
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(stream(w.a), 0));
    fc_stream_set_capture(stream(w.a), 1);
    mark_capture(cca::get(), true);
    return "ok";
}

static std::string do_capture_end(const Args &w)
{
    mark_capture(cca::get(), false);
    fc_stream_set_capture(stream(w.a), 0);
    c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream(0));
    return "ok";
}

static std::string do_reserve_class(const Args &w)
{
    reserve_class(stream(w.a), w.b);
    return "ok";
}

static std::string do_reset_peak(const Args &)
{
    cca::get()->resetPeakStats(0);
    return "ok";
}

static std::string do_reset_acc(const Args &)
{
    cca::get()->resetAccumulatedStats(0);
    return "ok";
}

static std::string do_stats(const Args &)
{
    print_stats();
    return "";
}

static std::string do_snapshot(const Args &)
{
    print_snapshot();
    return "";
}

static std::string do_trace(const Args &)
{
    print_trace();
    return "";
}

static std::string do_quiet(const Args &w)
{
    quiet = w.a != "off";
    return "";
}

// What "start" asks for was done before the allocator existed: see read_script.
static std::string do_start(const Args &)
{
    return "ok";
}

// An operation that returns no word prints no line of its own.
static const std::map<std::string, std::string (*)(const Args &)> operations = {
    {"start", do_start},
    {"conf", do_conf},
    {"fraction", do_fraction},
    {"alloc", do_alloc},
    {"free", do_free},
    {"record", do_record},
    {"advance", do_advance},
    {"events", do_events},
    {"sync", do_sync},
    {"empty", do_empty},
    {"addr", do_addr},
    {"external", do_external},
    {"fail", do_fail},
    {"pool_create", do_pool_create},
    {"pool_begin", do_pool_begin},
    {"pool_end", do_pool_end},
    {"pool_release", do_pool_release},
    {"capture_begin", do_capture_begin},
    {"capture_end", do_capture_end},
    {"reserve_class", do_reserve_class},
    {"annotate", do_annotate},
    {"reset_peak", do_reset_peak},
    {"reset_acc", do_reset_acc},
    {"stats", do_stats},
    {"snapshot", do_snapshot},
    {"trace", do_trace},
    {"quiet", do_quiet},
};

// ---- the script
// ------------------------------------------------------------------------------ The first
// clause of a message, without file names and line numbers, which differ by release.
static std::string clause(const std::string &message)
{
    std::string text = message.substr(0, message.find('\n'));
    size_t at = text.find(" INTERNAL ASSERT FAILED");
    if (at != std::string::npos) return "assertion";
    for (const char *end : {" (Exception raised", ". ", "; "})
        text = text.substr(0, text.find(end));
    while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
    return text;
}

// Returns false when the run has to end here.
static bool run(const std::string &line, size_t line_no)
{
    std::istringstream in(line);
    std::string op;
    Args w;
    in >> op >> w.a >> w.b >> w.c;
    if (op.empty() || op[0] == '#') return true;
    auto it = operations.find(op);
    if (it == operations.end()) {
        std::fprintf(stderr, "line %zu: unknown operation %s\n", line_no, op.c_str());
        std::exit(2);
    }
    std::string result;
    bool go_on = true;
    try {
        result = it->second(w);
        if (quiet) return true;
    } catch (const c10::Error &e) {
        std::fprintf(stderr, "line %zu: %s\n", line_no, e.what_without_backtrace());
        result = "error: " + clause(e.what_without_backtrace());
        go_on = op == "conf";
    } catch (const std::exception &e) {
        result = std::string("error: ") + clause(e.what());
        go_on = op == "conf";
    }
    if (!result.empty()) {
        std::printf("%zu %s -> %s", line_no, line.c_str(), result.c_str());
        print_totals();
    }
    return go_on;
}

static std::vector<std::string> read_script(const char *name)
{
    std::ifstream file;
    if (std::strcmp(name, "-") != 0) {
        file.open(name);
        if (!file) {
            std::perror(name);
            std::exit(2);
        }
    }
    std::vector<std::string> lines;
    for (std::string line; std::getline(file.is_open() ? file : std::cin, line);)
        lines.push_back(line);
    return lines;
}

// The environment is read while the libraries are loaded, so "start" means a new beginning.
static void begin_with_options(const std::vector<std::string> &script, char **argv)
{
    const std::string option = "PYTORCH_CUDA_ALLOC_CONF";
    for (const std::string &line : script) {
        if (line.rfind("start ", 0) != 0 || std::getenv(option.c_str())) continue;
        setenv(option.c_str(), line.substr(6).c_str(), 1);
        execv("/proc/self/exe", argv);
        std::perror("/proc/self/exe");
        std::exit(2);
    }
}

int main(int argc, char **argv)
{
    bool versioned = argc == 4 && std::strcmp(argv[1], "--version") == 0;
    if (argc != 2 && !versioned) {
        std::fprintf(stderr, "usage: ptdriver [--version V] SCRIPT\n");
        return 2;
    }
    if (versioned && std::strcmp(argv[2], VERSION) != 0) {
        std::fprintf(stderr, "this is the allocator of %s, not of %s\n", VERSION, argv[2]);
        return 2;
    }
    std::vector<std::string> script = read_script(argv[argc - 1]);
    begin_with_options(script, argv);
    try {
        start_allocator();
        start_history(cca::get(), size_t{1} << 22);
    } catch (const std::exception &e) {
        std::printf("start -> error: %s\n", clause(e.what()).c_str());
        return 0;
    }
    for (size_t n = 1; n <= script.size(); n++)
        if (!run(script[n - 1], n)) break;
    std::fflush(stdout);
    std::_Exit(0); // leave before static destructors meet a gone device
}
