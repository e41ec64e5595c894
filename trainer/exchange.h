#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "layers/update.h"
#include "net/net.h"
#include "trainer/shard_tree.h"

namespace poseidon::trainer {

/// How the gradients of a layer, one for each logical shard, become their sum. All calls come from
/// the compute thread.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// The net's memory holds the layer's gradient for shard `shard`, counted from 0 among this
  /// worker's own, which come in order. It may be overwritten by the layer's next backward.
  virtual void contribute(int layer, int64_t shard) = 0;
  /// A layer whose gradient memory holds the sum over all shards, each layer once a step; none when
  /// no further one is there yet.
  virtual std::optional<int> arrived() = 0;
  /// The same, but waits until there is one. Only while one is under way.
  virtual int wait() = 0;
};

/// One worker alone: its own shards are all there are, summed by the fixed tree.
class LocalExchange final : public GradientExchange {
 public:
  LocalExchange(net::Net& net, layers::Updater& updater, int64_t shards);

  void contribute(int layer, int64_t shard) override;
  std::optional<int> arrived() override;
  int wait() override;

 private:
  net::Net& net_;
  int64_t shards_;
  std::vector<ShardTree> trees_;  ///< one for each parameter; none with one shard
  std::deque<int> arrived_;
};

}  // namespace poseidon::trainer
