#pragma once

#include <memory>
#include <string>

#include "core/error.h"
#include "core/log.h"

/// The steps from a cuDNN graph to its first execution. They do not name cuDNN's types, so tests
/// can run them without cuDNN.
namespace poseidon::layers::cuda {

/// Builds the operations of a cuDNN graph. With a handle, cuDNN plans for the GPU of the handle.
/// Without a handle (null), cuDNN plans for the GPU that `properties` describe. Such a plan cannot
/// run.
template <class Graph, class Handle, class Properties>
auto build_operations(Graph& graph, Handle* handle, const Properties& properties) {
  if (handle != nullptr) return graph.build_operation_graph(handle);
  graph.set_device_properties(properties);
  return graph.build_operation_graph();
}

/// Warns the first time that a plan of a device is reloaded.
class ReloadWarning {
 public:
  /// `log` null: no messages.
  explicit ReloadWarning(Log* log) : log_(log) {}

  void warn(const std::string& title, const std::string& error) {
    if (log_ != nullptr)
      log_->warning(text(title, ": cuDNN could not execute the plan (", error,
                         "); the plan works after a reload from its serialized form; "
                         "further reloads are not reported"));
    log_ = nullptr;
  }

 private:
  Log* log_;
};

/// Executes one plan of a library. If the first execution fails, reloads the plan and executes it
/// once more.
class PlanExecution {
 public:
  /// All plans of a device share `warning`. Only the compute thread uses it.
  explicit PlanExecution(std::shared_ptr<ReloadWarning> warning) : warning_(std::move(warning)) {}

  /// `execute` and `reload` return the error, or "" after success. `title` names the plan in
  /// messages. Throws RunError.
  template <class Execute, class Reload>
  void run(const std::string& title, const Execute& execute, const Reload& reload) {
    std::string error = execute();
    if (!error.empty() && !executed_) {
      const std::string again = after_reload(execute, reload);
      if (again.empty()) warning_->warn(title, error);
      error = again.empty() ? "" : text(error, "; ", again);
    }
    if (!error.empty()) throw RunError(text(title, ": ", error));
    executed_ = true;
  }

 private:
  template <class Execute, class Reload>
  static std::string after_reload(const Execute& execute, const Reload& reload) {
    if (const std::string error = reload(); !error.empty())
      return text("reload of the plan: ", error);
    const std::string error = execute();
    return error.empty() ? "" : text("after a reload of the plan: ", error);
  }

  const std::shared_ptr<ReloadWarning> warning_;
  bool executed_ = false;
};

}  // namespace poseidon::layers::cuda
