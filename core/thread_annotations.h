#pragma once

/// Annotations of lock discipline, which clang's -Wthread-safety checks and other compilers do not
/// see. Use with Mutex (core/mutex.h), since std::mutex has none.
#if defined(__clang__)
#define POSEIDON_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define POSEIDON_THREAD_ATTRIBUTE(attribute)
#endif

/// On a member that is read and written only while `mutex` is held.
#define GUARDED_BY(mutex) POSEIDON_THREAD_ATTRIBUTE(guarded_by(mutex))
/// On a pointer to what is read and written only while `mutex` is held.
#define PT_GUARDED_BY(mutex) POSEIDON_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
/// On a function that is called with these held, or with these not held.
#define REQUIRES(...) POSEIDON_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) POSEIDON_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
/// On a function that takes, or gives back, a lock.
#define ACQUIRE(...) POSEIDON_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) POSEIDON_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
/// On a class that is a lock, or that holds one for the time of a scope.
#define CAPABILITY(name) POSEIDON_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY POSEIDON_THREAD_ATTRIBUTE(scoped_lockable)
