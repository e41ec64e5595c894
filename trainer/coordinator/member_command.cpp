#include "trainer/coordinator/member_command.h"

#include <array>
#include <span>

#include "core/digest.h"
#include "core/isa.h"
#include "core/secret.h"

namespace poseidon::trainer {

namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

std::vector<std::string> member_command(const std::filesystem::path& folder, comm::NodeId node,
                                        const std::string& coordinator,
                                        std::chrono::seconds join_timeout) {
  const bool worker = node.role == comm::Role::kWorker;
  std::vector<std::string> command{
      (folder / (worker ? "poseidon-worker" : "poseidon-server")).string(),
      "--coordinator",
      coordinator,
      "--rank",
      std::to_string(node.rank),
      "--once",
      "--join-timeout",
      std::to_string(join_timeout.count())};
  if (!isa_is_best()) {
    command.emplace_back("--isa");
    command.emplace_back(name_of(isa()));
  }
  return command;
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
