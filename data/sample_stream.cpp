#include "data/sample_stream.h"

#include <charconv>

#include "core/printable.h"

namespace poseidon::data {

namespace {

class Chain final : public SampleStream {
 public:
  explicit Chain(std::vector<OpenStream> parts) : parts_(std::move(parts)) {
    check(!parts_.empty(), "a chain needs at least one stream");
    current_ = parts_[0]();
  }
  bool next(std::string& name, Sample& sample) override {
    while (!current_->next(name, sample)) {
      if (opened_ == parts_.size()) return false;
      current_.reset();
      current_ = parts_[opened_++]();
    }
    return true;
  }
  std::string source() const override { return current_->source(); }
  int64_t size() const override { return parts_.size() == 1 ? current_->size() : 0; }
  std::vector<AuxiliaryInput> extras() const override { return current_->extras(); }

 private:
  std::vector<OpenStream> parts_;
  std::unique_ptr<SampleStream> current_;
  size_t opened_ = 1;
};

/// Trims blanks and a byte order mark, and limits the length for messages.
std::string_view trimmed_label(std::string_view written) {
  constexpr std::string_view kBlanks = " \t\r\n";
  written = without_byte_order_mark(written);
  const size_t from = written.find_first_not_of(kBlanks);
  if (from == std::string_view::npos) return {};
  return written.substr(from, written.find_last_not_of(kBlanks) + 1 - from).substr(0, 40);
}

}  // namespace

std::unique_ptr<SampleStream> make_chain(std::vector<OpenStream> parts) {
  return std::make_unique<Chain>(std::move(parts));
}

int32_t checked_label(int64_t label, const std::string& name) {
  if (label < 0 || label >= kMaxNumberedClasses)
    throw CorruptSample(
        text(name, ": expected a label from 0 to ", kMaxNumberedClasses - 1, ", got ", label));
  return static_cast<int32_t>(label);
}

int32_t parse_label(std::string_view written, const std::string& name) {
  const std::string_view digits = trimmed_label(written);
  int64_t label = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), label);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size())
    throw CorruptSample(text(name, ": expected a label from 0 to ", kMaxNumberedClasses - 1,
                             ", got \"", printable(digits), "\""));
  return checked_label(label, name);
}

}  // namespace poseidon::data
