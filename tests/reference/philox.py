"""The random numbers of core/philox.h in numpy, implemented from its description: Philox 4x32-10 (Salmon et al.,
SC'11). The SplitMix64 finalizer makes the key from seed, purpose and stream."""

import numpy as np

INITIALIZATION, SHUFFLE, AUGMENTATION, DROPOUT, GENERATION, POOLING = range(6)
MASK64 = (1 << 64) - 1


def key_of(seed, purpose, stream):
    state = 0
    for part in (seed, purpose, stream):
        state = (state + part + 0x9E3779B97F4A7C15) & MASK64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK64
        state ^= state >> 31
    return state


def words(seed, purpose, stream, index, count):
    """The first `count` 32-bit words of a stream."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    counter = [block & low, block >> half,
               np.full_like(block, index & 0xFFFFFFFF), np.full_like(block, index >> 32)]
    key = key_of(seed, purpose, stream)
    key0, key1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        product0 = counter[0] * np.uint64(0xD2511F53)
        product1 = counter[2] * np.uint64(0xCD9E8D57)
        counter = [(product1 >> half) ^ counter[1] ^ np.uint64(key0), product1 & low,
                   (product0 >> half) ^ counter[3] ^ np.uint64(key1), product0 & low]
        key0 = (key0 + 0x9E3779B9) & 0xFFFFFFFF
        key1 = (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(counter, axis=1).reshape(-1)[:count].astype(np.uint32)


def uniform(seed, purpose, stream, index, count, low=0.0, high=1.0):
    """float32 in [low, high): RandomStream::next_uniform(low, high)."""
    unit = (words(seed, purpose, stream, index, count) >> 8).astype(np.float32) * np.float32(2.0 ** -24)
    return np.float32(low) + (np.float32(high) - np.float32(low)) * unit


def name_hash(name):
    """FNV-1a hash, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK64
    return value
