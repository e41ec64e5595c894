#pragma once

/// Lock discipline in words that clang's -Wthread-safety checks; other compilers see nothing. Use
/// with Mutex (core/mutex.h): std::mutex carries no such words.
#if defined(__clang__)
#define POSEIDON_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define POSEIDON_THREAD_ATTRIBUTE(attribute)
#endif

/// On a member: read and written only while `mutex` is held.
#define GUARDED_BY(mutex) POSEIDON_THREAD_ATTRIBUTE(guarded_by(mutex))
/// On a pointer: what it points to is read and written only while `mutex` is held.
#define PT_GUARDED_BY(mutex) POSEIDON_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
/// On a function: called with these held, or with these not held.
#define REQUIRES(...) POSEIDON_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) POSEIDON_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
/// On a function that takes, or gives back, a lock.
#define ACQUIRE(...) POSEIDON_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) POSEIDON_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
/// On a class that is a lock, or that holds one for the time of a scope.
#define CAPABILITY(name) POSEIDON_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY POSEIDON_THREAD_ATTRIBUTE(scoped_lockable)
