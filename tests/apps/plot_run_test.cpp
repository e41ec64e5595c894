// scripts/plot-run on the files of complete and incomplete runs.

#include <doctest/doctest.h>

#include "tests/apps/program.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
using trainer::write_text;

namespace {

Finished plot_run(const TinyJob& job, const std::vector<std::string>& arguments) {
  const std::string script = test::source_folder() + "/scripts/plot-run";
  return Program(script, arguments, job.folder).wait();
}

Finished plot(const TinyJob& job) { return plot_run(job, {"--force", job.folder.string()}); }

std::string train_line(int step, double loss) {
  return "{\"type\":\"train\",\"step\":" + std::to_string(step) +
         ",\"loss\":" + std::to_string(loss) + "}\n";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("plot-run: escapes & and < in a name, skips a torn line, accepts a missing config") {
  const TinyJob job;
  write_text(job.folder / "config.json", "{\"name\": \"cats & <dogs>\"}");
  write_text(job.folder / "metrics.jsonl", train_line(1, 2) + train_line(2, 1) + "{\"type\":\"tr");
  const Finished drawn = plot(job);
  CHECK(drawn.code == 0);
  CHECK(has(drawn.err, "skipping a line that is not a record"));
  CHECK(has(read_text(job.folder / "loss.svg"), ">cats &amp; &lt;dogs&gt;</text>"));
  for (const char* config : {"{\"name\"", "[1]"}) {
    write_text(job.folder / "config.json", config);
    CHECK(plot(job).code == 0);
  }
  trainer::fs::remove(job.folder / "config.json");
  CHECK(plot(job).code == 0);
  CHECK(has(read_text(job.folder / "loss.svg"), ">" + job.folder.filename().string() + "</text>"));
}

TEST_CASE("plot-run: one line states why nothing can be drawn") {
  const TinyJob job;
  const auto refused = [&] {
    const Finished finished = plot(job);
    CHECK(finished.code == 1);
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
    return finished.err;
  };
  const std::string metrics = (job.folder / "metrics.jsonl").string();
  CHECK(refused() == "plot-run: " + metrics + ": cannot be read: No such file or directory\n");
  write_text(metrics, "");
  CHECK(refused() == "plot-run: " + metrics + ": expected training steps, got none\n");
}

TEST_CASE("plot-run: no file is overwritten without --force") {
  const TinyJob job;
  write_text(job.folder / "metrics.jsonl", train_line(1, 2) + train_line(2, 1));
  const std::string run = job.folder.string(), kept = (job.folder / "kept").string();
  write_text(kept, "kept");
  const Finished refused = plot_run(job, {run, kept});
  CHECK(refused.code == 2);
  CHECK(refused.err == "plot-run: " + kept +
                           ": exists already; expected a new file, or --force, which overwrites "
                           "it\n");
  CHECK(read_text(kept) == "kept");
  CHECK(plot_run(job, {run}).code == 0);
  CHECK(plot_run(job, {run}).code == 2);
  CHECK(plot_run(job, {run, kept, "--force"}).code == 0);
  const Finished two = plot_run(job, {run, run});
  CHECK(two.code == 2);
  CHECK(has(two.err, ": is a folder, expected an SVG file to write"));
}

TEST_CASE("plot-run: the smoothed line begins and ends at the data") {
  const TinyJob job;
  std::string lines;
  for (int step = 1; step <= 100; ++step) lines += train_line(step, step < 100 ? 4 : 0);
  write_text(job.folder / "metrics.jsonl", lines);
  CHECK(plot(job).code == 0);
  const std::string svg = read_text(job.folder / "loss.svg");
  const size_t smooth = svg.find("stroke-width=\"2\"");
  const size_t begin = svg.rfind("points=\"", smooth), end = svg.find('"', begin + 8);
  const std::string points = svg.substr(begin + 8, end - begin - 8);
  CHECK(points.ends_with(",332.0"));  // a loss of 0 is on the axis
}
