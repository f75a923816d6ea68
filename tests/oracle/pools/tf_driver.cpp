// tf_driver -- plays a script (pool_script.py) to TensorFlow's BFC allocator.
//
//     tf_driver SCRIPT
//
// The allocator is the one inside of libtensorflow_framework.so; what it gets comes from a
// sub-allocator that only keeps books.
#include <xla/tsl/framework/bfc_allocator.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

// Numbers and prints segments; addresses go upwards and nobody has one twice.
class device final : public tsl::SubAllocator
{
  public:
    explicit device(std::size_t capacity) : SubAllocator({}, {}), room{capacity} {}

    void *Alloc(std::size_t, std::size_t bytes, std::size_t *received) override
    {
        if (bytes > room) return nullptr;
        auto const at = next;
        room -= bytes;
        next += (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
        held[at] = segments;
        std::printf("R %d %zu\n", segments++, bytes);
        *received = bytes;
        return reinterpret_cast<void *>(at);
    }

    void Free(void *pointer, std::size_t bytes) override
    {
        auto const segment = held.find(reinterpret_cast<std::size_t>(pointer));
        std::printf("X %d\n", segment->second);
        room += bytes;
        held.erase(segment);
    }

    bool SupportsCoalescing() const override { return false; }

    void print_place(long id, void *pointer) const
    {
        auto const at = reinterpret_cast<std::size_t>(pointer);
        auto const segment = std::prev(held.upper_bound(at));
        std::printf("%ld %d %zu\n", id, segment->second, at - segment->first);
    }

  private:
    std::size_t room, next = std::size_t{1} << 40;
    int segments = 0;
    std::map<std::size_t, int> held;
};

using options = std::map<std::string, std::string>;

static double number(const options &given, const char *name, double usual)
{
    auto const option = given.find(name);
    return option == given.end() ? usual : std::stod(option->second);
}

static bool is_true(const options &given, const char *name, bool usual)
{
    auto const option = given.find(name);
    return option == given.end() ? usual : option->second == "True";
}

static void play(std::istream &script, tsl::BFCAllocator &allocator, const device &below)
{
    tsl::AllocationAttributes at_once;
    at_once.retry_on_failure = false; // else it waits for somebody else to free
    std::map<long, void *> live;
    std::string verb;
    for (long id; script >> verb;) {
        if (verb == "flush") continue; // nothing that it has
        script >> id;
        if (verb == "a") {
            std::size_t bytes;
            long stream;
            script >> bytes >> stream;
            void *at = allocator.AllocateRaw(64, bytes, at_once);
            if (at) below.print_place(id, live[id] = at);
            else std::printf("%ld refused\n", id);
        } else if (live.count(id)) {
            allocator.DeallocateRaw(live[id]);
            live.erase(id);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    std::ifstream script{argv[1]};
    std::string word, spec;
    std::size_t capacity;
    script >> word >> spec >> word >> capacity;
    options given;
    std::istringstream list{spec.find(':') == std::string::npos ? "" : spec.substr(4)};
    for (std::string option; std::getline(list, option, ',');)
        given[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
    tsl::BFCAllocator::Options how;
    double const prealloc = number(given, "prealloc", 0);
    how.allow_growth = is_true(given, "allow_growth", true) && !(prealloc > 0);
    how.garbage_collection = is_true(given, "garbage_collection", false);
    how.fragmentation_fraction = number(given, "fragmentation_fraction", 0);
    double const share =
        prealloc > 0 ? prealloc : number(given, "per_process_gpu_memory_fraction", 0);
    auto const limit =
        share > 0 ? static_cast<std::size_t>(share * static_cast<double>(capacity)) : capacity;
    auto below = std::make_unique<device>(capacity);
    auto const &seen = *below;
    tsl::BFCAllocator allocator{std::move(below), limit, "script", how};
    play(script, allocator, seen);
    std::fflush(stdout);
    std::_Exit(0); // what goes back now is of no interest
}
