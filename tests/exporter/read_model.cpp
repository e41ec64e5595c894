#include "tests/exporter/read_model.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/wire_message.h"

namespace poseidon::exporter::made {

namespace {

using Names = std::vector<std::string>;

std::string joined(const Names& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::string number_text(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.6g", value);
  return out;
}

template <class Value>
std::string list_text(const std::vector<Value>& values) {
  Names texts;
  for (const Value& value : values) texts.push_back(text(value));
  return "[" + joined(texts) + "]";
}

/// Calls `read` with each field of a message.
template <class Read>
void each_field(WireMessage message, const Read& read) {
  for (WireField field; message.next(field);) read(message, field);
}

std::string read_attribute(const WireMessage& outer, const WireField& from) {
  std::string name, single;
  std::vector<int64_t> integers;
  int64_t type = 0;
  each_field(WireMessage(outer, from), [&](const WireMessage& message, const WireField& field) {
    if (field.number == 1) name = message.text(field);
    if (field.number == 2)
      single = number_text(std::bit_cast<float>(static_cast<uint32_t>(field.value)));
    if (field.number == 3) single = std::to_string(static_cast<int64_t>(field.value));
    if (field.number == 8) integers.push_back(static_cast<int64_t>(field.value));
    if (field.number == 20) type = static_cast<int64_t>(field.value);
  });
  return " " + name + "=" + (type == 7 ? list_text(integers) : single);
}

std::string read_node(const WireMessage& outer, const WireField& from) {
  Names inputs, outputs;
  std::string type, attributes;
  each_field(WireMessage(outer, from), [&](const WireMessage& message, const WireField& field) {
    if (field.number == 1) inputs.push_back(message.text(field));
    if (field.number == 2) outputs.push_back(message.text(field));
    if (field.number == 4) type = message.text(field);
    if (field.number == 5) attributes += read_attribute(message, field);
  });
  return type + "(" + joined(inputs) + ") -> " + joined(outputs) + attributes;
}

ReadTensor read_tensor(const WireMessage& outer, const WireField& from) {
  ReadTensor tensor;
  each_field(WireMessage(outer, from), [&](const WireMessage& message, const WireField& field) {
    if (field.number == 1) tensor.extents.push_back(static_cast<int64_t>(field.value));
    if (field.number == 2) tensor.type = static_cast<int64_t>(field.value);
    if (field.number == 8) tensor.name = message.text(field);
    if (field.number == 9) tensor.values.assign(field.bytes.begin(), field.bytes.end());
  });
  return tensor;
}

/// Collects the extents of a port, which are in nested messages.
void read_extents(const WireMessage& outer, const WireField& from, int depth, Names& extents) {
  each_field(WireMessage(outer, from), [&](const WireMessage& message, const WireField& field) {
    if (depth == 3)
      extents.push_back(field.number == 2 ? message.text(field) : std::to_string(field.value));
    else if (field.type == WireType::kBytes)
      read_extents(message, field, depth + 1, extents);
  });
}

std::string read_port(const WireMessage& outer, const WireField& from) {
  std::string name;
  Names extents;
  each_field(WireMessage(outer, from), [&](const WireMessage& message, const WireField& field) {
    if (field.number == 1) name = message.text(field);
    if (field.number == 2) read_extents(message, field, 0, extents);
  });
  return name + " [" + joined(extents) + "]";
}

void read_graph(const WireMessage& outer, const WireField& from, ReadModel& model) {
  each_field(WireMessage(outer, from), [&](const WireMessage& message, const WireField& field) {
    if (field.number == 1) model.nodes.push_back(read_node(message, field));
    if (field.number == 2) model.graph = message.text(field);
    if (field.number == 5) model.tensors.push_back(read_tensor(message, field));
    if (field.number == 11) model.inputs.push_back(read_port(message, field));
    if (field.number == 12) model.outputs.push_back(read_port(message, field));
  });
}

template <class Value>
std::vector<Value> values_of(const std::vector<std::byte>& bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

/// A line for the tensor: its shape, or its values if it belongs to no parameter.
std::string tensor_text(const ReadTensor& tensor) {
  if (tensor.name.find("..") == std::string::npos)
    return tensor.name + " " + list_text(tensor.extents);
  return tensor.name + " = " +
         (tensor.type == 7 ? list_text(tensor.integers()) : number_text(tensor.floats().at(0)));
}

}  // namespace

std::vector<float> ReadTensor::floats() const { return values_of<float>(values); }
std::vector<int64_t> ReadTensor::integers() const { return values_of<int64_t>(values); }

const ReadTensor& ReadModel::tensor(const std::string& name) const {
  for (const ReadTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw LogicError("no tensor " + name);
}

Names ReadModel::lines() const {
  Names all;
  for (const std::string& input : inputs) all.push_back("input " + input);
  all.insert(all.end(), nodes.begin(), nodes.end());
  for (const ReadTensor& tensor : tensors) all.push_back("tensor " + tensor_text(tensor));
  for (const std::string& output : outputs) all.push_back("output " + output);
  return all;
}

ReadModel read_model(std::span<const std::byte> bytes) {
  const std::string name = "model";
  ReadModel model;
  each_field(WireMessage(bytes, name), [&](const WireMessage& message, const WireField& field) {
    if (field.number == 1) model.ir_version = static_cast<int64_t>(field.value);
    if (field.number == 2) model.producer = message.text(field);
    if (field.number == 7) read_graph(message, field, model);
    if (field.number == 8)
      each_field(WireMessage(message, field), [&](const WireMessage&, const WireField& inner) {
        if (inner.number == 2) model.opset = static_cast<int64_t>(inner.value);
      });
  });
  return model;
}

}  // namespace poseidon::exporter::made
