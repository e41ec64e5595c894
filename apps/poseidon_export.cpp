// poseidon-export: writes trained networks in the formats of other programs.

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "apps/command_line.h"
#include "apps/output_file.h"
#include "apps/run_program.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/printable.h"
#include "exporter/onnx_export.h"
#include "exporter/torchvision_export.h"

namespace {

using namespace poseidon;
using apps::parse_command_line;

struct ExportFlags {
  std::string source, output, network, arch;
  bool fold_batch_norm = false, json = false, force = false;
};

CLI::App* add_command(CLI::App& program, const char* name, const char* doc, const char* output,
                      ExportFlags& flags) {
  CLI::App* command = program.add_subcommand(name, doc);
  command
      ->add_option("source", flags.source,
                   "run directory, checkpoint, output folder of poseidon-import, or weights")
      ->required()
      ->type_name("FILE");
  command->add_option("output", flags.output, output)->required()->type_name("FILE");
  command
      ->add_option("--network", flags.network,
                   "network file; default: network.json in the folder of the weights")
      ->type_name("FILE");
  command->add_flag("--force", flags.force, "overwrite an existing output");
  command->add_flag("--json", flags.json, "print the result as one JSON object");
  return command;
}

void print(const ExportFlags& flags, const Json& result, const std::string& line) {
  if (flags.json)
    std::cout << result.dump(2) << "\n";
  else
    std::cout << printable(flags.output) << ": " << line << "\n";
}

void export_torchvision(const ExportFlags& flags, Log& log) {
  const exporter::TrainedWeights trained(flags.source, flags.network, log);
  const exporter::TorchvisionReport report =
      exporter::export_torchvision(trained, {.arch = flags.arch, .output = flags.output}, log);
  print(flags, {{"output", flags.output}, {"arch", report.arch}, {"tensors", report.tensors}},
        text("torchvision's ", report.arch, ", ", counted(report.tensors, "tensor")));
}

void export_onnx(const ExportFlags& flags, Log& log) {
  const exporter::TrainedWeights trained(flags.source, flags.network, log);
  const exporter::OnnxReport report = exporter::export_onnx(
      trained, {.fold_batch_norm = flags.fold_batch_norm, .producer_version = POSEIDON_VERSION},
      flags.output);
  std::string outputs;
  for (const std::string& name : report.outputs)
    outputs += (outputs.empty() ? "" : ", ") + printable(name);
  print(flags,
        {{"output", flags.output},
         {"opset", exporter::kOnnxOpset},
         {"outputs", report.outputs},
         {"nodes", report.nodes},
         {"tensors", report.tensors}},
        text("ONNX opset ", exporter::kOnnxOpset, ", ", counted(report.nodes, "node"), ", ",
             counted(report.tensors, "tensor"), ", outputs: ", outputs));
}

int run(int count, char** arguments) {
  CLI::App program{"Converts trained networks to the formats of other programs.",
                   "poseidon-export"};
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("poseidon-export ") + POSEIDON_VERSION);
  program.footer("docs/import.md: conversion of each layer and tensor.");
  ExportFlags flags;
  CLI::App* torchvision = add_command(
      program, "torchvision", "write the state dict of a network that torchvision also provides",
      ".safetensors file to write", flags);
  torchvision->add_option(
      "--arch", flags.arch,
      "torchvision's name of the network; default: the network's name in Poseidon");
  CLI::App* onnx = add_command(program, "onnx", "write the network in test phase as ONNX",
                               ".onnx file to write", flags);
  onnx->add_flag("--fold-batch-norm", flags.fold_batch_norm,
                 "fold batch norms into the convolutions and linear layers before them");
  if (!parse_command_line(program, "poseidon-export", count, arguments)) return 0;
  apps::refuse_existing(flags.output, flags.force);
  StandardErrorLog log;
  if (torchvision->parsed())
    export_torchvision(flags, log);
  else
    export_onnx(flags, log);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return poseidon::apps::run_program("poseidon-export", count, arguments,
                                     [=] { return run(count, arguments); });
}
