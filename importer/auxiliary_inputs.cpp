#include "importer/auxiliary_inputs.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/error.h"

namespace poseidon::importer {

namespace {

/// Converts extents of a batch to those of a sample: {channels, height, width} or {values}.
std::vector<int64_t> extents_of_sample(const std::string& blob, const std::vector<int64_t>& batch,
                                       const Place& place) {
  if (batch.size() > 4)
    fail_at(place, text("expected at most 4 extents of \"", blob, "\", got ", batch.size()));
  std::vector<int64_t> sample(batch.begin() + 1, batch.end());
  if (sample.empty()) sample.push_back(1);
  if (sample.size() == 2) sample.push_back(1);
  return sample;
}

}  // namespace

bool AuxiliaryInputs::is_given(const std::string& blob) const {
  return std::ranges::find(given_, blob, &AuxiliaryInput::name) != given_.end();
}

std::optional<size_t> AuxiliaryInputs::find_or_add(const std::string& blob,
                                                   const std::vector<int64_t>& extents,
                                                   const Place& place) {
  const auto given = std::ranges::find(given_, blob, &AuxiliaryInput::name);
  std::vector<int64_t> shape;
  if (given != given_.end())
    shape = given->extents;
  else if (!extents.empty())
    shape = extents_of_sample(blob, extents, place);
  else
    return std::nullopt;
  const auto index = static_cast<size_t>(std::ranges::find(blobs_, blob) - blobs_.begin());
  if (index == blobs_.size()) {
    blobs_.push_back(blob);
    all_.push_back({.name = "", .extents = shape});
  }
  if (all_[index].extents != shape)
    fail_at(place, text("\"", blob, "\": expected shape ", all_[index].shape().text(),
                        " as in the other phase, got ", Shape(shape).text()));
  return index;
}

const std::string& AuxiliaryInputs::use(size_t index) {
  used_.insert(index);
  return all_[index].name;
}

void AuxiliaryInputs::check_given() const {
  for (const AuxiliaryInput& extra : given_)
    if (std::ranges::find(blobs_, extra.name) == blobs_.end())
      throw ConfigError(text("--extra ", extra.name,
                             ": no auxiliary input has this name; expected the name of a data "
                             "layer's top or of a network "
                             "input, other than the images"));
}

std::vector<AuxiliaryInput> AuxiliaryInputs::used() const {
  std::vector<AuxiliaryInput> extras;
  for (const size_t index : used_) extras.push_back(all_[index]);
  return extras;
}

std::string valid_input_name(std::string blob) {
  for (char& c : blob)
    if (static_cast<unsigned char>(c) >= 128 ||
        (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-'))
      c = '_';
  if (blob == "input" || blob == "label") blob += "_values";
  return blob;
}

AuxiliaryInput parse_auxiliary_input(const std::string& given) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(
        text("--extra: expected NAME=CHANNELSxHEIGHTxWIDTH or NAME=VALUES, such as "
             "pose=6, got ",
             given, why));
  };
  const size_t equals = given.find('=');
  if (equals == std::string::npos || equals == 0) refuse("");
  AuxiliaryInput extra{.name = given.substr(0, equals), .extents = {}};
  const char* at = given.data() + equals;
  const char* const end = given.data() + given.size();
  while (at != end) {
    int64_t extent = 0;
    const auto [stop, fault] = std::from_chars(at + 1, end, extent);
    if (fault != std::errc() || extent < 1 || (stop != end && *stop != 'x')) refuse("");
    extra.extents.push_back(extent);
    at = stop;
  }
  // A blob's name may be invalid as an input name, so check the converted name.
  const std::vector<AuxiliaryInput> one{{valid_input_name(extra.name), extra.extents}};
  if (const AuxiliaryInputError fault = first_error_in(one)) refuse(": " + fault.message);
  return extra;
}

}  // namespace poseidon::importer
