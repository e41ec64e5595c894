#include "trainer/report/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "trainer/report/run_directory_lock.h"
#include "trainer/report/time_text.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr auto kBetweenLiveLines = std::chrono::milliseconds(100);

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double elapsed_of(const Json& line) {
  const bool known = line.contains("elapsed_s") && line["elapsed_s"].is_number();
  return known ? line["elapsed_s"].get<double>() : 0;
}

/// Keeps the lines of steps up to `step` in the file `path`. Removes the other lines, because the
/// run repeats their steps.
EarlierLines cut_after(const fs::path& path, int64_t step) {
  EarlierLines earlier;
  std::ifstream file(path);
  if (!file) return earlier;
  std::string kept;
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) continue;
    earlier.last = line;
    if (line["step"].get<int64_t>() > step) continue;
    kept += text + "\n";
    (line.value("type", "") == "test" ? earlier.last_test : earlier.last_train) = line;
    earlier.elapsed_s = elapsed_of(line);
  }
  write_file(path, kept);
  return earlier;
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char line[256];
  const int length = std::snprintf(line, sizeof line, format, values...);
  return {line, static_cast<size_t>(std::min<int>(length, sizeof line - 1))};
}

/// Adds the layers' scalars to a line of metrics.jsonl and to the scalars for TensorBoard.
void add_told(const std::vector<Scalar>& named_values, const std::string& group, Json& line,
              std::vector<Scalar>& scalars) {
  for (const auto& [key, value] : named_values) {
    line[key] = value;
    scalars.emplace_back(group + key, value);
  }
}

constexpr size_t kWorkersShown = 4;

std::string times_text(const StepTimes& times) {
  return formatted("%.0f+%.0f", times.compute_ms, times.wait_ms());
}

/// Milliseconds of computing and of waiting, by worker. With more than kWorkersShown workers, shows
/// only the slowest worker, for which the other workers wait.
std::string workers_text(const std::vector<StepTimes>& workers) {
  if (workers.empty()) return "";
  if (workers.size() > kWorkersShown) {
    const auto slowest = std::ranges::max_element(workers, {}, &StepTimes::compute_ms);
    return formatted("  slowest worker %lld: ", static_cast<long long>(slowest - workers.begin())) +
           times_text(*slowest) + " ms";
  }
  std::string out = "  compute+wait ms";
  for (const StepTimes& times : workers) out += " " + times_text(times);
  return out;
}

}  // namespace

double Metrics::Window::samples_per_second(int64_t batch) const {
  const double ms = times.all_ms();
  return ms > 0 ? static_cast<double>(steps * batch) / ms * 1000 : 0;
}

Metrics::Metrics(const fs::path& folder, const Options& options, Console& console)
    : options_(options),
      console_(console),
      path_(folder / "metrics.jsonl"),
      earlier_(cut_after(path_, options.steps_done)),
      lines_(path_),
      events_(folder, seconds_since_1970()) {
  if (!earlier_.last.is_null()) events_.begin_session(options.steps_done + 1, seconds_since_1970());
}

double Metrics::samples_per_second() const {
  return whole_.samples_per_second(options_.global_batch);
}

void Metrics::trained(const StepReport& report, bool last) {
  last_report_ = report;
  for (Window* window : {&window_, &whole_}) {
    ++window->steps;
    window->times += report.times;
    for (const comm::Scheme scheme : comm::kSendingSchemes)
      window->bytes[scheme] += report.bytes[scheme];
  }
  if (report.step % options_.log_every == 0 || report.step == 1 || last) write_line();
  const auto now = std::chrono::steady_clock::now();
  if (!console_.live() || (now - shown_ < kBetweenLiveLines && !last)) return;
  shown_ = now;
  console_.show(progress_line(report));
}

void Metrics::end() {
  if (window_.steps > 0) write_line();
}

void Metrics::write_line() {
  const StepReport& report = last_report_;
  const auto steps = static_cast<double>(window_.steps);
  const double rate = window_.samples_per_second(options_.global_batch);
  const double epoch = static_cast<double>(report.step * options_.global_batch) /
                       static_cast<double>(options_.epoch_samples);
  Json line{{"type", "train"},
            {"step", report.step},
            {"epoch", epoch},
            {"loss", report.mean.loss},
            {"learning_rate", report.learning_rate},
            {"samples_per_second", rate},
            {"compute_ms", window_.times.compute_ms / steps},
            {"wait_ms", window_.times.wait_ms() / steps},
            {"data_wait_ms", window_.times.data_wait_ms / steps},
            {"sum_wait_ms", window_.times.sum_wait_ms / steps}};
  for (const comm::Scheme scheme : comm::kSendingSchemes)
    line[comm::bytes_key(scheme)] = window_.bytes[scheme] / steps;
  std::vector<Scalar> scalars{{"train/loss", report.mean.loss},
                              {"train/learning_rate", report.learning_rate},
                              {"train/samples_per_second", rate}};
  add_told(options_.scalars.named_values(report.mean), "train/", line, scalars);
  append(line, scalars);
  if (console_.live())
    console_.record(progress_line(report));
  else
    console_.info(progress_line(report));
  window_ = {};
}

/// Appends a line to metrics.jsonl and to the TensorBoard file. A failed write does not end the
/// run, unless another process now owns the run. "elapsed_s" continues from the previous session.
void Metrics::append(Json line, std::span<const Scalar> scalars) {
  const std::chrono::duration<double> session = std::chrono::steady_clock::now() - start_;
  line["time"] = time_of_day(std::chrono::system_clock::now());
  line["elapsed_s"] = std::round((earlier_.elapsed_s + session.count()) * 1000) / 1000;
  try {
    options_.before_writing();
    lines_.append(line.dump() + "\n");
    events_.add(line.at("step").get<int64_t>(), seconds_since_1970(), scalars);
  } catch (const LockLost&) {
    throw;
  } catch (const RunError& error) {
    if (!warned_) console_.warning(text(error.what(), "; lines of metrics will be missing"));
    warned_ = true;
  }
}

std::string Metrics::progress_line(const StepReport& report) const {
  const double rate = samples_per_second();
  const double epoch = static_cast<double>(report.step * options_.global_batch) /
                       static_cast<double>(options_.epoch_samples);
  const double left =
      static_cast<double>((options_.last_step - report.step) * options_.global_batch);
  const std::optional<double> top1 = options_.scalars.find("top1", report.mean);
  return formatted("step %lld/%lld  epoch %.2f  loss %.4f  ", static_cast<long long>(report.step),
                   static_cast<long long>(options_.steps), epoch, report.mean.loss) +
         (top1 ? formatted("accuracy %.1f %%  ", 100 * *top1) : "") +
         formatted("%.0f samples/s  ", rate) +
         (rate > 0 ? duration_text(left / rate) + " left" : "") + workers_text(report.workers);
}

void Metrics::tested(int64_t step, const TestResult& result) {
  Json line{
      {"type", "test"}, {"step", step}, {"loss", result.mean.loss}, {"samples", result.samples}};
  std::vector<Scalar> scalars{{"test/loss", result.mean.loss}};
  add_told(options_.test_scalars.named_values(result.mean), "test/", line, scalars);
  append(line, scalars);
  console_.info(
      formatted("step %lld: test loss %.4f", static_cast<long long>(step), result.mean.loss) +
      accuracy_text(result.mean) +
      formatted(" of %lld samples in %.1f s", static_cast<long long>(result.samples),
                result.seconds));
}

void Metrics::forget_after(int64_t step) {
  const double elapsed_s = earlier_.elapsed_s;
  earlier_ = cut_after(path_, step);
  earlier_.elapsed_s = elapsed_s;
  lines_ = AppendFile(path_);
  events_.begin_session(step + 1, seconds_since_1970());
  window_ = {};
}

std::string Metrics::accuracy_text(const SampleSums& mean) const {
  const std::optional<double> top1 = options_.test_scalars.find("top1", mean),
                              top5 = options_.test_scalars.find("top5", mean);
  return (top1 ? formatted(", accuracy %.2f %%", 100 * *top1) : "") +
         (top5 ? formatted(" (top 5: %.2f %%)", 100 * *top5) : "");
}

}  // namespace poseidon::trainer
