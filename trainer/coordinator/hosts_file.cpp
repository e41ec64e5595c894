#include "trainer/coordinator/hosts_file.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"

namespace poseidon::trainer {

namespace {

constexpr uint64_t kMaxBytes = 1 << 20;
constexpr int64_t kMaxSlots = 4096;
constexpr std::string_view kBlank = " \t\r";
constexpr const char* kForm = "expected [user@]host[:port] [slots=N] [address=A]";
constexpr const char* kHostForm = "expected [user@]host[:port]; put an IPv6 address in brackets";

/// The words of a line without its comment, which begins with '#'.
std::vector<std::string_view> parts_of_line(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(line.find_first_of(kBlank, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

/// Parses `digits` as a number from 1 to `most`. Returns 0 for any other text.
int64_t positive_number(std::string_view digits, int64_t most) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = fault == std::errc() && end == digits.data() + digits.size();
  return whole && value >= 1 && value <= most ? value : 0;
}

/// Whether the word is safe as an argument for ssh and a shell: it is not an option and has no
/// special characters.
bool is_name(std::string_view word) {
  const auto passes = [](unsigned char c) {
    return c > ' ' && c < 0x7F &&
           std::string_view("\"'`$&|;<>()[]{}*?!\\/@").find(static_cast<char>(c)) ==
               std::string_view::npos;
  };
  return !word.empty() && word.front() != '-' && std::ranges::all_of(word, passes);
}

/// Parser of one line of a hosts file.
class HostLine {
 public:
  HostLine(const std::string& file, size_t number) : place_(text(file, ":", number, ": ")) {}

  Host parse(const std::vector<std::string_view>& words) const {
    Host host = parse_host(words[0]);
    for (const std::string_view word : std::span(words).subspan(1)) set(host, word);
    if (host.address.empty()) host.address = host.name;
    return host;
  }

 private:
  [[noreturn]] void refuse(const char* expected, std::string_view got) const {
    throw ConfigError(text(place_, expected, ", got \"", printable(got), "\""));
  }

  Host parse_host(std::string_view word) const {
    Host host;
    std::string_view rest = word;
    if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
      host.user = rest.substr(0, at);
      rest.remove_prefix(at + 1);
      if (!is_name(host.user)) refuse(kHostForm, word);
    }
    const bool bracketed = rest.starts_with('[');
    const size_t end = bracketed ? rest.find(']') : std::min(rest.find(':'), rest.size());
    if (end == std::string_view::npos) refuse(kHostForm, word);
    host.name = bracketed ? rest.substr(1, end - 1) : rest.substr(0, end);
    rest.remove_prefix(end + (bracketed ? 1 : 0));
    if (!is_name(host.name)) refuse(kHostForm, word);
    if (rest.empty()) return host;
    if (rest.front() != ':' || (!bracketed && rest.rfind(':') != 0)) refuse(kHostForm, word);
    host.port = static_cast<uint16_t>(positive_number(rest.substr(1), UINT16_MAX));
    if (host.port == 0) refuse("expected a port from 1 to 65535 after the host", word);
    return host;
  }

  void set(Host& host, std::string_view word) const {
    if (word.starts_with("slots=")) {
      host.slots = positive_number(word.substr(word.find('=') + 1), kMaxSlots);
      if (host.slots == 0) refuse("expected slots=N with N from 1 to 4096", word);
    } else if (word.starts_with("address=")) {
      host.address = word.substr(word.find('=') + 1);
      if (host.address.starts_with('[') && host.address.ends_with(']'))
        host.address = host.address.substr(1, host.address.size() - 2);
      if (!is_name(host.address))
        refuse("expected address=A with A a host name or an IP address", word);
    } else {
      refuse(kForm, word);
    }
  }

  const std::string place_;
};

}  // namespace

std::vector<Host> parse_hosts(std::string_view text_of_file, const std::string& file) {
  std::vector<Host> hosts;
  text_of_file = without_byte_order_mark(text_of_file);
  for (size_t number = 1; !text_of_file.empty(); ++number) {
    const size_t end = std::min(text_of_file.find('\n'), text_of_file.size());
    const std::vector<std::string_view> words = parts_of_line(text_of_file.substr(0, end));
    if (!words.empty()) hosts.push_back(HostLine(file, number).parse(words));
    text_of_file.remove_prefix(std::min(end + 1, text_of_file.size()));
  }
  if (hosts.empty())
    throw ConfigError(text(file,
                           ": expected a line [user@]host[:port] [slots=N] for each host, "
                           "got an empty list"));
  return hosts;
}

std::vector<Host> read_hosts(const std::filesystem::path& file) {
  std::vector<std::byte> bytes;
  read_file(file, kMaxBytes, bytes);
  return parse_hosts({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
}

int64_t slots_of(const std::vector<Host>& hosts) {
  int64_t slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

HostAssignment::HostAssignment(std::vector<Host> hosts, int64_t workers, int64_t servers)
    : hosts_(std::move(hosts)), servers_(servers), workers_on_(hosts_.size()) {
  check(workers >= 1 && workers <= slots_of(hosts_), "there are fewer slots than workers");
  size_t host = 0;
  for (int64_t worker = 0; worker < workers; ++worker) {
    while (workers_on_[host] == hosts_[host].slots) ++host;
    ++workers_on_[host];
    host_of_worker_.push_back(host);
  }
}

size_t HostAssignment::index_of(comm::NodeId node) const {
  const size_t workers = host_of_worker_.size();
  const bool is_worker = node.role == comm::Role::kWorker;
  return host_of_worker_[is_worker ? node.rank
                                   : node.rank * workers / static_cast<size_t>(servers_)];
}

}  // namespace poseidon::trainer
