// poseidon-import: converts files of other programs to networks, jobs and weights.

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "apps/flag_checks.h"
#include "apps/run_program.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/printable.h"
#include "importer/auxiliary_inputs.h"
#include "importer/import.h"
#include "importer/torchvision_import.h"

namespace {

using namespace poseidon;
using apps::parse_command_line;

struct CaffeFlags {
  std::string prototxt, solver, weights, output, input;
  std::vector<std::string> extras;
  bool bgr_to_rgb = false, skip_unknown = false, json = false, force = false;
};

void add_force(CLI::App& command, bool& force) {
  command.add_flag("--force", force,
                   "write to a folder that is not empty, and overwrite an earlier import there");
}

CLI::App* add_caffe(CLI::App& program, CaffeFlags& flags) {
  CLI::App* command = program.add_subcommand(
      "caffe", "write network.json, job.json and weights.safetensors for a Caffe network");
  command->add_option("output", flags.output, "folder to write to, new or empty")
      ->required()
      ->type_name("FOLDER");
  command
      ->add_option("--prototxt", flags.prototxt, "network: train_val.prototxt or deploy.prototxt")
      ->required()
      ->type_name("FILE");
  command->add_option("--solver", flags.solver, "solver.prototxt, for job.json")->type_name("FILE");
  command->add_option("--weights", flags.weights, "trained weights: a .caffemodel file")
      ->type_name("FILE");
  add_force(*command, flags.force);
  command->add_option("--input", flags.input,
                      "CHANNELSxHEIGHTxWIDTH of a sample, if the network does not define it");
  command->add_option("--extra", flags.extras,
                      "NAME=CHANNELSxHEIGHTxWIDTH or NAME=VALUES: a further top of a data layer, "
                      "which becomes an auxiliary input; repeatable");
  command->add_flag(
      "--bgr-to-rgb", flags.bgr_to_rgb,
      "convert means and the weights that read images from Caffe's blue, green, red to red, "
      "green, blue");
  command->add_flag(
      "--skip-unknown", flags.skip_unknown,
      "skip layers and fields without an equivalent, with a warning instead of an error");
  command->add_flag("--json", flags.json, "print the result as one JSON object");
  return command;
}

struct TorchvisionFlags {
  std::string arch, weights, output;
  int64_t classes = 1000;
  bool json = false, force = false;
};

CLI::App* add_torchvision(CLI::App& program, TorchvisionFlags& flags) {
  CLI::App* command = program.add_subcommand(
      "torchvision", "write network.json, job.json and weights.safetensors for a state dict");
  command->add_option("weights", flags.weights, "state dict: a .safetensors file")
      ->required()
      ->type_name("FILE");
  command->add_option("output", flags.output, "folder to write to, new or empty")
      ->required()
      ->type_name("FOLDER");
  add_force(*command, flags.force);
  command->add_option("--arch", flags.arch, "torchvision's name of the network")->required();
  command->add_option("--classes", flags.classes, "number of classes")
      ->capture_default_str()
      ->check(apps::whole_number(1, 1 << 24));
  command->add_flag("--json", flags.json, "print the result as one JSON object");
  return command;
}

void print_report(const importer::ImportReport& report, const std::string& output, bool json) {
  if (json) {
    const Json result{{"output", output},        {"network", report.network},
                      {"layers", report.layers}, {"parameters", report.parameters},
                      {"job", report.job},       {"tensors", report.tensors}};
    std::cout << result.dump(2) << "\n";
    return;
  }
  std::cout << printable(output) << ": network.json (" << counted(report.layers, "layer") << ", "
            << counted(report.parameters, "parameter") << ")";
  if (report.job) std::cout << ", job.json";
  if (report.tensors > 0)
    std::cout << ", weights.safetensors (" << counted(report.tensors, "tensor") << ")";
  std::cout << "\n";
}

void import_caffe(const CaffeFlags& flags) {
  importer::CaffeImport asked{.prototxt = flags.prototxt,
                              .solver = flags.solver,
                              .weights = flags.weights,
                              .output = flags.output,
                              .input = std::nullopt,
                              .extras = {},
                              .bgr_to_rgb = flags.bgr_to_rgb,
                              .skip_unknown = flags.skip_unknown,
                              .force = flags.force};
  if (!flags.input.empty()) {
    try {
      asked.input = importer::parse_sample_shape(flags.input);
    } catch (const ConfigError& error) {
      throw ConfigError(text("--input: ", error.what()));
    }
  }
  for (const std::string& extra : flags.extras)
    asked.extras.push_back(importer::parse_auxiliary_input(extra));
  StandardErrorLog log;
  print_report(importer::import_caffe(asked, log), flags.output, flags.json);
}

void import_torchvision(const TorchvisionFlags& flags) {
  StandardErrorLog log;
  print_report(importer::import_torchvision({.arch = flags.arch,
                                             .weights = flags.weights,
                                             .output = flags.output,
                                             .classes = flags.classes,
                                             .force = flags.force},
                                            log),
               flags.output, flags.json);
}

int run(int count, char** arguments) {
  CLI::App program{"Converts networks, jobs and weights of other programs.", "poseidon-import"};
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("poseidon-import ") + POSEIDON_VERSION);
  program.footer("docs/import.md: conversion of each layer and field.");
  CaffeFlags caffe_flags;
  TorchvisionFlags torchvision_flags;
  const CLI::App* caffe = add_caffe(program, caffe_flags);
  add_torchvision(program, torchvision_flags);
  if (!parse_command_line(program, "poseidon-import", count, arguments)) return 0;
  if (caffe->parsed())
    import_caffe(caffe_flags);
  else
    import_torchvision(torchvision_flags);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return poseidon::apps::run_program("poseidon-import", count, arguments,
                                     [=] { return run(count, arguments); });
}
