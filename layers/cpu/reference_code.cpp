#include <string>

#include "core/cpu/onednn.h"
#include "core/error.h"
#include "layers/cpu/cpu_layer.h"

namespace poseidon::layers::cpu {

std::string reference_code_warning(const LayerRequest& request, const Implementations& by) {
  std::string passes;
  const auto add = [&passes](const std::string& implementation, const char* pass) {
    if (poseidon::cpu::is_reference(implementation))
      passes += (passes.empty() ? "" : " and ") + std::string(pass);
  };
  add(by.forward, "the forward pass");
  add(by.backward_data, "the gradient of the input");
  add(by.backward_weights, "the gradient of the weight");
  if (passes.empty()) return "";
  return text("[", request.definition.type(), " '", request.definition.name, "'] for ", passes,
              ", oneDNN has only slow reference code (input ", request.input_shapes[0].text(),
              ", output ", request.output_shape.text(), ")");
}

}  // namespace poseidon::layers::cpu
