#include "apps/train_print.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/counted.h"
#include "core/memory.h"
#include "core/printable.h"

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

std::string size_text(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

/// Returns megabytes (10^6 bytes) with three decimals, or "-" for null.
std::string megabytes_text(const Json& bytes) {
  if (bytes.is_null()) return "-";
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3f", bytes.get<double>() / 1e6);
  return buffer.data();
}

/// The bytes that a scheme would move, and their format: "8.389 fp32".
std::string offer_text(const Json& offer) {
  if (offer.is_null()) return "-";
  return megabytes_text(offer["bytes"]) + " " + offer["format"].get<std::string>();
}
std::string rebuild_text(const Json& offer) {
  if (offer.is_null()) return "-";
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.2f", offer["rebuild_gflop"].get<double>());
  return buffer.data();
}

/// Returns the string at `key` in printable form, because names may contain any characters.
std::string text_of(const Json& object, const char* key) {
  return printable(object[key].get<std::string>());
}
std::string name_of(const Json& object) { return text_of(object, "name"); }

constexpr size_t kWaitsShown = 4, kLayersShown = 16, kWorkersShown = 16, kClassesShown = 10;

void print_rest(size_t all, size_t shown, const char* what) {
  if (all > shown) std::printf("(and %zu more %s: see summary.json)\n", all - shown, what);
}

/// Returns the layers with the longest waits for sums, in seconds: "fc6 2.10, conv1 0.50".
std::string waits_text(const Json& waits) {
  std::string out;
  for (size_t i = 0; i < std::min(waits.size(), kWaitsShown); ++i) {
    std::array<char, 32> seconds{};
    std::snprintf(seconds.data(), seconds.size(), " %.2f", waits[i]["s"].get<double>());
    out += (i > 0 ? ", " : "") + text_of(waits[i], "layer") + seconds.data();
  }
  return out + (waits.size() > kWaitsShown ? ", ..." : "");
}

/// Prints how each worker spent the time of its steps.
void print_times(const Json& workers) {
  std::printf("\n%-10s %10s %14s %14s  %s\n", "seconds", "computing", "awaiting data",
              "awaiting sums", "longest waits by layer");
  for (size_t i = 0; i < std::min(workers.size(), kWorkersShown); ++i) {
    const Json& worker = workers[i];
    std::printf("worker %-3lld %10.2f %14.2f %14.2f  %s\n", worker["worker"].get<long long>(),
                worker["compute_s"].get<double>(), worker["data_wait_s"].get<double>(),
                worker["sum_wait_s"].get<double>(), waits_text(worker["sum_waits"]).c_str());
  }
  print_rest(workers.size(), kWorkersShown, "workers");
}

/// Prints the layers that caused the most network traffic, summed over all nodes.
void print_layers(const Json& all) {
  std::vector<const Json*> layers;
  double bytes = 0, planned = 0;
  for (const Json& layer : all) {
    layers.push_back(&layer);
    bytes += layer["bytes"].get<double>();
    planned += layer["planned_bytes"].get<double>();
  }
  const auto moved = [](const Json* layer) { return (*layer)["bytes"].get<double>(); };
  std::ranges::stable_sort(layers, std::greater{}, moved);
  constexpr const char* kRow = "%-28s %6s %12s %12s\n";
  std::printf("\n");
  std::printf(kRow, "layer", "scheme", "MB moved", "MB planned");
  for (size_t i = 0; i < std::min(layers.size(), kLayersShown); ++i)
    std::printf(kRow, name_of(*layers[i]).c_str(), text_of(*layers[i], "scheme").c_str(),
                megabytes_text((*layers[i])["bytes"]).c_str(),
                megabytes_text((*layers[i])["planned_bytes"]).c_str());
  print_rest(layers.size(), kLayersShown, "layers");
  std::printf(kRow, "all layers", "", megabytes_text(bytes).c_str(),
              megabytes_text(planned).c_str());
  std::printf("\n");
}

/// Prints the classes with the lowest accuracy.
void print_worst_classes(const Json& all) {
  std::vector<const Json*> classes;
  for (const Json& each : all) classes.push_back(&each);
  std::ranges::stable_sort(classes, std::less{},
                           [](const Json* each) { return (*each)["accuracy"].get<double>(); });
  std::printf("\n%-28s %10s %10s %10s\n", "worst classes", "samples", "correct", "accuracy");
  for (size_t i = 0; i < std::min(classes.size(), kClassesShown); ++i) {
    const Json& each = *classes[i];
    std::printf("%-28s %10lld %10lld %8.2f %%\n", text_of(each, "class").c_str(),
                each["samples"].get<long long>(), each["correct"].get<long long>(),
                100 * each["accuracy"].get<double>());
  }
}

void print_confusions(const Json& confusions) {
  if (confusions.empty()) return;
  std::printf("\n%-28s %-28s %10s\n", "class", "predicted class", "samples");
  for (size_t i = 0; i < std::min(confusions.size(), kClassesShown); ++i)
    std::printf("%-28s %-28s %10lld\n", text_of(confusions[i], "class").c_str(),
                text_of(confusions[i], "taken_for").c_str(),
                confusions[i]["samples"].get<long long>());
}

/// Prints the estimated peak memory of a worker, in total and for each use. Omits uses of 0 bytes.
void print_memory(const Json& memory) {
  std::printf("\n%-28s %10s\n", "estimated peak memory", "MiB");
  for (const auto& [key, bytes] : memory.items()) {
    std::string name = key == "total_bytes" ? "total per worker" : key;
    std::ranges::replace(name, '_', ' ');
    if (bytes != 0) std::printf("%-28s %10.1f\n", name.c_str(), mebibytes(bytes));
  }
}

/// Returns "oneDNN jit:avx2" if one implementation computes all passes. Otherwise returns "forward
/// X, input gradient Y, weight gradient Z".
std::string implementations_text(const Json& passes) {
  std::set<std::string> names;
  std::string by_pass;
  for (const auto& [pass, name] : passes.items()) {
    names.insert(name.get<std::string>());
    const std::string label = pass == "forward"         ? "forward "
                              : pass == "backward_data" ? "input gradient "
                                                        : "weight gradient ";
    by_pass += (by_pass.empty() ? "" : ", ") + label + name.get<std::string>();
  }
  return names.size() == 1 ? *names.begin() : by_pass;
}

}  // namespace

void print_devices(const Json& devices) {
  std::printf("%-8s %s, %d cores\n", "cpu", text_of(devices["cpu"], "arithmetic").c_str(),
              devices["cpu"]["cores"].get<int>());
  int number = 0;
  for (const Json& gpu : devices["gpus"])
    std::printf("%-8s %s, %s, compute capability %s\n",
                ("cuda:" + std::to_string(number++)).c_str(), name_of(gpu).c_str(),
                bytes_text(gpu["memory_bytes"].get<size_t>()).c_str(),
                text_of(gpu, "compute_capability").c_str());
  if (devices.contains("why_no_gpus"))
    std::printf("%-8s none: %s\n", "cuda", text_of(devices, "why_no_gpus").c_str());
}

void print_check(const Json& check) {
  std::printf("%-28s %-14s %-20s %12s  %s\n", "layer", "type", "output", "parameters",
              "computed by");
  for (const Json& layer : check["layers"]) {
    const Json& all = check["implementations"];
    const auto by = all.find(name_of(layer));
    std::printf("%-28s %-14s %-20s %12lld  %s%s\n", name_of(layer).c_str(),
                text_of(layer, "type").c_str(), shape_text(layer["output_shape"]).c_str(),
                layer["parameters"].get<long long>(),
                by == all.end() ? "" : implementations_text(*by).c_str(),
                layer.contains("phase") ? (" (" + text_of(layer, "phase") + " only)").c_str() : "");
  }
  std::printf(
      "%s: %lld parameters (%.1f MiB), activations %.1f MiB for a batch of %lld\n",
      name_of(check).c_str(), check["parameters"].get<long long>(),
      mebibytes(check["parameter_bytes"]), mebibytes(check["activation_bytes"]),
      check["layers"].empty() ? 0LL : check["layers"][0]["output_shape"][0].get<long long>());
  print_memory(check["memory"]);
}

void print_plan(const Json& plan) {
  constexpr const char* kRow = "%-28s %-12s %15s %15s %15s %8s %11s  %-6s  %s\n";
  std::printf(kRow, "layer", "type", "M x N", "by ps", "by sfb", "rebuild", "chosen", "", "");
  std::printf(kRow, "", "", "", "MB", "MB", "Gflop", "MB", "scheme", "reason");
  for (const Json& layer : plan["layers"])
    std::printf(
        kRow, name_of(layer).c_str(), text_of(layer, "type").c_str(),
        size_text(layer["rows"].get<int64_t>(), layer["columns"].get<int64_t>()).c_str(),
        offer_text(layer["schemes"]["ps"]).c_str(), offer_text(layer["schemes"]["sfb"]).c_str(),
        rebuild_text(layer["schemes"]["sfb"]).c_str(), megabytes_text(layer["bytes"]).c_str(),
        text_of(layer, "scheme").c_str(), text_of(layer, "reason").c_str());
  std::printf("%s, %s, %g samples per worker: %s MB per node and step, sent and received\n",
              counted(plan["workers"].get<int64_t>(), "worker").c_str(),
              counted(plan["servers"].get<int64_t>(), "server").c_str(),
              plan["batch_per_worker"].get<double>(),
              megabytes_text(plan["bytes_per_node"]).c_str());
  std::printf("%zu chunks; the largest server shard is %.3f times the mean\n",
              plan["chunks"].size(), plan["hottest_shard_over_mean"].get<double>());
  if (const double step_ms = plan["predicted_step_ms"].get<double>(); step_ms > 0)
    std::printf("predicted step: %.2f ms, overlap: %s\n", step_ms,
                text_of(plan, "overlap").c_str());
  if (const std::string advice = text_of(plan, "advice"); !advice.empty())
    std::printf("%s\n", advice.c_str());
  if (plan.contains("simulated_step_ms"))
    std::printf("simulated step: %.2f ms\n", plan["simulated_step_ms"].get<double>());
}

void print_timing(const Json& timing) {
  constexpr const char* kTitles = "%-28s %-14s %10s %10s %7s %10s %10s  %s\n";
  std::printf(kTitles, "layer", "type", "forward", "backward", "share", "fwd", "bwd",
              "computed by");
  std::printf(kTitles, "", "", "ms", "ms", "%", "Gflop/s", "Gflop/s", "");
  for (const Json& layer : timing["layers"])
    std::printf("%-28s %-14s %10.3f %10.3f %7.1f %10.1f %10.1f  %s\n", name_of(layer).c_str(),
                text_of(layer, "type").c_str(), layer["forward_ms"].get<double>(),
                layer["backward_ms"].get<double>(), 100 * layer["share"].get<double>(),
                layer["forward_gflops"].get<double>(), layer["backward_gflops"].get<double>(),
                implementations_text(layer["implementations"]).c_str());
  const double forward = timing["forward_ms"].get<double>();
  const double backward = timing["backward_ms"].get<double>();
  const double update = timing["update_ms"].get<double>();
  const double all = forward + backward + update;
  std::printf(
      "%s, batch %lld, %lld threads: forward %.2f ms, backward %.2f ms, update %.2f ms; "
      "%.1f samples/s; activations %.1f MiB\n",
      name_of(timing).c_str(), timing["batch"].get<long long>(), timing["threads"].get<long long>(),
      forward, backward, update, timing["batch"].get<double>() / all * 1000,
      mebibytes(timing["arena_bytes"]));
}

void print_test(const Json& test) {
  std::printf("%s: loss %.4f", text_of(test, "weights").c_str(), test["loss"].get<double>());
  if (test.contains("top1")) std::printf(", accuracy %.2f %%", 100 * test["top1"].get<double>());
  if (test.contains("top5")) std::printf(" (top 5: %.2f %%)", 100 * test["top5"].get<double>());
  std::printf(" on %lld samples\n", test["samples"].get<long long>());
  print_worst_classes(test["classes"]);
  print_confusions(test["confusions"]);
}

void print_features(const Json& features) {
  std::printf("%s: %lld samples, weights %s\n", text_of(features, "file").c_str(),
              features["samples"].get<long long>(), text_of(features, "weights").c_str());
  for (const Json& layer : features["layers"])
    std::printf("  %s  %s\n", text_of(layer, "name").c_str(), layer["shape"].dump().c_str());
}

void print_scores(const Json& scores) {
  for (const Json& image : scores["images"]) {
    if (image.contains("error")) continue;  // the error is printed to standard error
    std::printf("%s:", text_of(image, "file").c_str());
    for (const Json& score : image["scores"])
      std::printf("  %s %.1f %%", text_of(score, "class").c_str(),
                  100 * score["probability"].get<double>());
    std::printf("\n");
  }
}

/// Prints the results of this run, which may be the rest of a longer run, and the last test.
void print_summary(const Json& summary) {
  const auto first = summary["first_step"].get<int64_t>();
  const auto last = summary["steps"].get<int64_t>();
  std::printf("%s: %s ", name_of(summary).c_str(), counted(last - first + 1, "step").c_str());
  if (first > 1 && last > first)
    std::printf("(%lld to %lld) ", static_cast<long long>(first), static_cast<long long>(last));
  std::printf("in %.1f s, %.0f samples/s", summary["wall_seconds"].get<double>(),
              summary["samples_per_second"].get<double>());
  if (summary["test_top1"].is_number()) {
    std::printf(", test accuracy %.2f %%", 100 * summary["test_top1"].get<double>());
    if (summary["test_step"] != summary["steps"])
      std::printf(" after step %lld", summary["test_step"].get<long long>());
  }
  std::printf("\n");
  if (summary.contains("time")) {
    print_times(summary["time"]);
    print_layers(summary["layers"]);
  }
  std::printf("results in %s\n", text_of(summary, "output").c_str());
}

}  // namespace poseidon::apps
