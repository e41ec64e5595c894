#include "apps/train_print.h"

#include <cstdio>
#include <string>

namespace poseidon::apps {

namespace {

std::string shape_text(const Json& extents) {
  std::string out;
  for (const Json& extent : extents) {
    if (!out.empty()) out += 'x';
    out += extent.dump();
  }
  return out;
}

double mebibytes(const Json& bytes) { return bytes.get<double>() / (1 << 20); }

std::string name_of(const Json& object) { return object["name"].get<std::string>(); }

}  // namespace

void print_check(const Json& check) {
  std::printf("%-28s %-14s %-20s %12s\n", "layer", "type", "output", "parameters");
  for (const Json& layer : check["layers"])
    std::printf("%-28s %-14s %-20s %12lld\n", name_of(layer).c_str(),
                layer["type"].get<std::string>().c_str(), shape_text(layer["output_shape"]).c_str(),
                layer["parameters"].get<long long>());
  std::printf(
      "%s: %lld parameters (%.1f MiB), activations %.1f MiB for a batch of %lld\n",
      name_of(check).c_str(), check["parameters"].get<long long>(),
      mebibytes(check["parameter_bytes"]), mebibytes(check["activation_bytes"]),
      check["layers"].empty() ? 0LL : check["layers"][0]["output_shape"][0].get<long long>());
}

void print_timing(const Json& timing) {
  std::printf("%-28s %-14s %10s %10s %7s %10s %10s\n", "layer", "type", "forward", "backward",
              "share", "fwd", "bwd");
  std::printf("%-28s %-14s %10s %10s %7s %10s %10s\n", "", "", "ms", "ms", "%", "Gflop/s",
              "Gflop/s");
  for (const Json& layer : timing["layers"])
    std::printf("%-28s %-14s %10.3f %10.3f %7.1f %10.1f %10.1f\n", name_of(layer).c_str(),
                layer["type"].get<std::string>().c_str(), layer["forward_ms"].get<double>(),
                layer["backward_ms"].get<double>(), 100 * layer["share"].get<double>(),
                layer["forward_gflops"].get<double>(), layer["backward_gflops"].get<double>());
  const double forward = timing["forward_ms"].get<double>();
  const double backward = timing["backward_ms"].get<double>();
  const double update = timing["update_ms"].get<double>();
  const double all = forward + backward + update;
  std::printf(
      "%s, batch %lld, %lld threads: forward %.2f ms, backward %.2f ms, update %.2f ms; "
      "%.1f samples/s; activations take %.1f MiB\n",
      name_of(timing).c_str(), timing["batch"].get<long long>(), timing["threads"].get<long long>(),
      forward, backward, update, timing["batch"].get<double>() / all * 1000,
      mebibytes(timing["arena_bytes"]));
}

void print_test(const Json& test) {
  std::printf("%s: loss %.4f, accuracy %.2f %% (top 5: %.2f %%) of %lld samples\n",
              test["weights"].get<std::string>().c_str(), test["loss"].get<double>(),
              100 * test["top1"].get<double>(), 100 * test["top5"].get<double>(),
              test["samples"].get<long long>());
}

void print_summary(const Json& summary) {
  std::printf("%s: %lld steps in %.1f s, %.0f samples/s", name_of(summary).c_str(),
              summary["steps"].get<long long>(), summary["wall_seconds"].get<double>(),
              summary["samples_per_second"].get<double>());
  if (summary["test_top1"].is_number())
    std::printf(", test accuracy %.2f %%", 100 * summary["test_top1"].get<double>());
  std::printf("\nresults in %s\n", summary["output"].get<std::string>().c_str());
}

}  // namespace poseidon::apps
