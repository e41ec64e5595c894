#include "core/failure.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "core/error.h"

namespace poseidon {

std::string message_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const RunError& error) {
    return error.what();
  } catch (const std::filesystem::filesystem_error& error) {
    return text(error.path1().string(), ": ", error.code().message());
  } catch (const std::system_error& error) {
    // Usually the system cannot start a thread because of a limit on processes or memory.
    return text("the system refused a resource: ", error.code().message(),
                error.code() == std::errc::resource_unavailable_try_again
                    ? ", perhaps a new thread; check ulimit -u and ulimit -v"
                    : "");
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what();
  } catch (...) {
    return "internal error: the object thrown is not a std::exception";
  }
}

int exit_code_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ConfigError&) {
    return 2;
  } catch (const std::filesystem::filesystem_error&) {
    return 2;
  } catch (const PeerFailed&) {
    return 3;
  } catch (...) {
    return 1;
  }
}

}  // namespace poseidon
