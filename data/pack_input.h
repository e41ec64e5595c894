#pragma once

#include <filesystem>
#include <memory>

#include "core/log.h"
#include "data/pack.h"
#include "data/sample_stream.h"

namespace poseidon::data {

/// Opens the samples to pack, in the order that `options` defines. Decompresses archives in
/// `work_folder`. Throws ConfigError if an input cannot be opened or an option does not fit the
/// input type.
std::unique_ptr<SampleStream> open_pack_input(const PackOptions& options,
                                              const std::filesystem::path& work_folder, Log& log);

}  // namespace poseidon::data
