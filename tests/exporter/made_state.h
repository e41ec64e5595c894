#pragma once

#include <cmath>

#include "core/file.h"
#include "core/philox.h"
#include "importer/shipped_networks.h"
#include "importer/torchvision_state.h"

/// State dicts of torchvision's networks, with the values of tests/reference/torchvision_golden.py.
namespace poseidon::exporter::made {

inline RandomStream random_stream(uint64_t stream) {
  return {11, RandomPurpose::kGeneration, stream, 0};
}

/// FNV-1a hash.
inline uint64_t name_hash(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

inline constexpr int64_t kCount = 7;

inline void fill_state(const importer::StateTensor& tensor, std::span<float> out) {
  float low = -0.1F, high = 0.1F;
  if (tensor.shape.rank() > 1) {
    high = static_cast<float>(std::sqrt(6.0 / static_cast<double>(tensor.shape.sample_count())));
    low = -high;
  } else if (tensor.torchvision_name.ends_with(".weight") ||
             tensor.torchvision_name.ends_with(".running_var")) {
    low = 0.5F;
    high = 1.5F;
  }
  RandomStream random = random_stream(name_hash(tensor.torchvision_name));
  for (float& value : out) value = random.next_uniform(low, high);
}

/// Writes a state dict in torchvision's order.
inline void write_state(const std::filesystem::path& path,
                        const std::vector<importer::StateTensor>& state) {
  std::vector<trainer::StoredTensor> tensors;
  for (const importer::StateTensor& tensor : state) {
    const std::span<const int64_t> extents = tensor.shape.extents();
    const bool counts = tensor.counts_batches();
    tensors.push_back(
        {.name = tensor.torchvision_name,
         .type = counts ? "I64" : "F32",
         .shape = {extents.begin(), extents.end()},
         .bytes = static_cast<uint64_t>(tensor.shape.count()) * (counts ? 8 : 4),
         .get = [&tensor, counts](std::span<std::byte> to) {
           if (counts)
             std::ranges::copy(std::as_bytes(std::span(&kCount, 1)), to.begin());
           else
             fill_state(tensor, {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
         }});
  }
  AtomicFile file(path);
  trainer::write_safetensors(file, tensors, {{"format", "pt"}});
  file.commit();
}

}  // namespace poseidon::exporter::made
