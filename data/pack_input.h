#pragma once

#include <filesystem>
#include <memory>

#include "core/log.h"
#include "data/pack.h"
#include "data/sample_stream.h"

namespace poseidon::data {

/// The samples that `options` asks to pack, in their order. Compressed archives are unpacked in
/// `work_folder`. Throws ConfigError for what cannot be opened, and for options that do not fit its
/// type.
std::unique_ptr<SampleStream> open_pack_input(const PackOptions& options,
                                              const std::filesystem::path& work_folder, Log& log);

}  // namespace poseidon::data
