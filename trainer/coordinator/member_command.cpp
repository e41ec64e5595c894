#include "trainer/coordinator/member_command.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/digest.h"
#include "core/isa.h"
#include "core/secret.h"

namespace poseidon::trainer {

namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

std::vector<std::string> member_command(const MemberStart& start) {
  const bool worker = start.node.role == comm::Role::kWorker;
  std::vector<std::string> command{
      (start.folder / (worker ? "poseidon-worker" : "poseidon-server")).string(),
      "--coordinator",
      start.coordinator,
      "--rank",
      std::to_string(start.node.rank),
      "--once",
      "--join-timeout",
      std::to_string(start.join_timeout.count())};
  if (worker)
    command.insert(command.end(), {"--threads", std::to_string(start.threads), "--workers-on-host",
                                   std::to_string(start.workers_on_host)});
  if (!isa_is_best()) {
    command.emplace_back("--isa");
    command.emplace_back(name_of(isa()));
  }
  return command;
}

int64_t count_of(comm::Role role, const std::vector<comm::NodeId>& members) {
  return std::ranges::count_if(members, [role](comm::NodeId node) { return node.role == role; });
}

std::filesystem::path program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

comm::Secret random_secret() {
  std::array<std::byte, kSecretBytes> random;
  fill_with_random_bytes(random);
  const std::string digits = hexadecimal(random);
  const auto bytes = std::as_bytes(std::span(digits));
  return {bytes.begin(), bytes.end()};
}

}  // namespace poseidon::trainer
