// rmm_driver -- plays a script (pool_script.py) to RMM's pool, arena or binning resource.
//
//     rmm_driver SCRIPT
//
// Needs no GPU: the resources are templates in the headers of RMM, what they get comes from a
// resource that only keeps books, and the few functions of the CUDA runtime they call stand
// here.  RMM goes through the lists of other streams in the order of their events' handles;
// here the handle of a stream's event is the stream's number.
#include <rmm/mr/device/arena_memory_resource.hpp>
#include <rmm/mr/device/binning_memory_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

static long stream_at_hand; // of the call that may create an event
static std::size_t capacity; // of the device

std::pair<std::size_t, std::size_t> rmm::available_device_memory()
{
    return {capacity, capacity};
}

extern "C" {
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = reinterpret_cast<cudaEvent_t>(stream_at_hand + 1);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t) { return ""; }
const char *cudaGetErrorString(cudaError_t) { return ""; }
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
}

// Numbers and prints segments; addresses go upwards and nobody has one twice.
class device final : public rmm::mr::device_memory_resource
{
  public:
    void print_place(long id, void *pointer) const
    {
        auto const at = reinterpret_cast<std::size_t>(pointer);
        auto const segment = std::prev(held.upper_bound(at));
        std::printf("%ld %d %zu\n", id, segment->second, at - segment->first);
    }

  private:
    void *do_allocate(std::size_t bytes, rmm::cuda_stream_view) override
    {
        if (bytes > room) throw rmm::out_of_memory{"no room"};
        auto const at = next;
        room -= bytes;
        next += (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
        held[at] = segments;
        std::printf("R %d %zu\n", segments++, bytes);
        return reinterpret_cast<void *>(at);
    }

    void do_deallocate(void *pointer, std::size_t bytes, rmm::cuda_stream_view) override
    {
        auto const segment = held.find(reinterpret_cast<std::size_t>(pointer));
        std::printf("X %d\n", segment->second);
        room += bytes;
        held.erase(segment);
    }

    std::size_t room = capacity, next = std::size_t{1} << 40;
    int segments = 0;
    std::map<std::size_t, int> held;
};

using options = std::map<std::string, std::string>;

static std::size_t number(const options &given, const char *name, std::size_t usual)
{
    auto const option = given.find(name);
    return option == given.end() ? usual : std::stoull(option->second);
}

using resource = std::shared_ptr<rmm::mr::device_memory_resource>;

static resource make(const std::string &pool, const options &given, device &upstream)
{
    auto const most = number(given, "maximum_pool_size", 0);
    auto const limit = most ? std::optional<std::size_t>{most} : std::nullopt;
    auto const percent = static_cast<int>(number(given, "percent_of_free_device_memory", 50));
    auto const first =
        number(given, "initial_pool_size", rmm::percent_of_free_device_memory(percent));
    auto const arena = number(given, "arena_size", 0);
    if (pool == "rmm_arena")
        return std::make_shared<rmm::mr::arena_memory_resource<device>>(
            &upstream, arena ? std::optional<std::size_t>{arena} : std::nullopt);
    auto const direct = given.find("upstream");
    bool const cuda = direct != given.end() && direct->second == "cuda";
    auto const one = cuda ? nullptr :
        std::make_shared<rmm::mr::pool_memory_resource<device>>(&upstream, first, limit);
    if (pool == "rmm_pool") return one;
    auto const least = static_cast<int8_t>(number(given, "min_size_exponent", 18));
    auto const largest = static_cast<int8_t>(number(given, "max_size_exponent", 22));
    if (cuda)
        return std::make_shared<rmm::mr::binning_memory_resource<device>>(&upstream, least,
                                                                          largest);
    static resource const kept = one; // the bins only refer to it
    return std::make_shared<rmm::mr::binning_memory_resource<rmm::mr::device_memory_resource>>(
        kept.get(), least, largest);
}

struct request {
    void *at;
    std::size_t bytes;
    long stream;
};

static void play(std::istream &script, rmm::mr::device_memory_resource &pool, device &upstream)
{
    std::map<long, request> live;
    std::string verb;
    for (long id; script >> verb;) {
        if (verb == "flush") continue; // nothing that RMM has
        script >> id;
        if (verb == "a") {
            request r{};
            script >> r.bytes >> r.stream;
            stream_at_hand = r.stream;
            try {
                auto const stream = reinterpret_cast<cudaStream_t>(r.stream * 16);
                r.at = pool.allocate_async(r.bytes, stream);
                upstream.print_place(id, r.at);
                live[id] = r;
            } catch (const rmm::bad_alloc &) {
                std::printf("%ld refused\n", id);
            }
        } else if (live.count(id)) {
            auto const &r = live[id];
            stream_at_hand = r.stream;
            pool.deallocate_async(r.at, r.bytes, reinterpret_cast<cudaStream_t>(r.stream * 16));
            live.erase(id);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    std::ifstream script{argv[1]};
    std::string word, spec;
    script >> word >> spec >> word >> capacity;
    auto const colon = spec.find(':');
    options given;
    if (colon != std::string::npos) {
        std::istringstream list{spec.substr(colon + 1)};
        for (std::string option; std::getline(list, option, ',');)
            given[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
    }
    device upstream;
    auto const pool = make(spec.substr(0, colon), given, upstream);
    play(script, *pool, upstream);
    std::fflush(stdout);
    std::_Exit(0); // what the pool gives back now is of no interest
}
