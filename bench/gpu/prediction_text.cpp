#include <cstdio>
#include <map>

#include "bench/gpu/cost_model_driver.h"
#include "bench/gpu/prediction.h"
#include "core/error.h"

namespace poseidon::bench {

namespace {

std::string fixed(double value, int digits) {
  char digits_of[64];
  std::snprintf(digits_of, sizeof digits_of, "%.*f", digits, value);
  return digits_of;
}

std::string line_of(const Prediction& prediction, const char* kind, const std::string& name,
                    const Work& work) {
  return text(prediction.network, '\t', prediction.batch, '\t', prediction.precision, '\t', kind,
              '\t', name, '\t', work.calls, '\t', fixed(work.bytes / 1e6, 2), '\t',
              fixed(work.flop / 1e9, 2), '\t', fixed(work.seconds * 1e6, 1), '\n');
}

std::string lines_of_all(const Prediction& prediction, const char* kind,
                         const std::map<std::string, Work>& works) {
  std::string lines;
  for (const auto& [name, work] : works) lines += line_of(prediction, kind, name, work);
  return lines;
}

}  // namespace

std::string lines_of(const std::vector<Prediction>& predictions) {
  std::string lines = "network\tbatch\tprecision\tkind\tname\tcalls\tMB\tGFLOP\tmicroseconds\n";
  for (const Prediction& prediction : predictions) {
    lines += lines_of_all(prediction, "part", prediction.cost_counter.by_part());
    lines += lines_of_all(prediction, "kernel", prediction.cost_counter.by_kernel());
  }
  return lines;
}

std::string host_lines_of(const std::vector<Prediction>& predictions) {
  std::string lines =
      "network\tbatch\tprecision\tworkers\tcopies to the GPU\tMB\tcopies from the GPU\tMB\tbytes "
      "of kernels in host memory\n";
  for (const Prediction& each : predictions) {
    const std::map<std::string, Work> kernels = each.cost_counter.by_kernel();
    lines += text(each.network, '\t', each.batch, '\t', each.precision, '\t', each.workers);
    for (const char* copy : {kUploadKernel, kDownloadKernel})
      lines += text('\t', kernels.at(copy).calls, '\t', fixed(kernels.at(copy).bytes / 1e6, 2));
    lines += text('\t', fixed(each.cost_counter.all().kernel_host_bytes, 0), '\n');
  }
  return lines;
}

std::string table_of(const std::vector<Prediction>& predictions) {
  std::string table =
      "| network | batch | precision | GPU ms | upload ms | bound by memory | memory GB |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Prediction& each : predictions)
    table +=
        text("| ", each.network, " | ", each.batch, " | ", each.precision, " | ",
             fixed(1e3 * each.compute_seconds(), 2), " | ", fixed(1e3 * each.upload_seconds(), 2),
             " | ", fixed(100 * each.cost_counter.all().memory_seconds / each.compute_seconds(), 0),
             " % | ", fixed(static_cast<double>(each.memory_bytes) / 1e9, 1), " |\n");
  return table;
}

}  // namespace poseidon::bench
