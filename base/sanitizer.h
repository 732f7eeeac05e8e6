/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sanitizer that the program was built with, while ital itself was built without: weak
 * references to the public interface of AddressSanitizer, ThreadSanitizer and MemorySanitizer.
 * Their functions are in the program, or in a library that it brings. In a build of ital with a
 * sanitizer nothing of this exists: the compiler has instrumented everything then.
 *
 * A sanitizer cannot see what code without instrumentation does, but it does see the functions of
 * libc that this code calls. Of such a call ThreadSanitizer sees the access and not the lock
 * (base/spinlock.h) under which it was made; MemorySanitizer sees a buffer that no instrumented
 * code has filled. So both are told to ignore what ital's own code does (sanitizer_ignore_begin),
 * and are told by name what concerns the program.
 */
#ifndef ITAL_BASE_SANITIZER_H
#define ITAL_BASE_SANITIZER_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZER_IS_OURS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZER_IS_OURS 1
#endif
#endif

#ifndef SANITIZER_IS_OURS
#define SANITIZER_WEAK __attribute__((weak, visibility("default")))

/* Of <sanitizer/common_interface_defs.h>, asan_, tsan_ and msan_interface.h; of compiler and
 * runtime: __tsan_*_range, Annotate*. Not included: a compiler may come without them. */
void __sanitizer_report_error_summary(const char *text) SANITIZER_WEAK;
void *__asan_region_is_poisoned(void *begin, size_t size) SANITIZER_WEAK;
void __asan_report_error(void *pc, void *bp, void *sp, void *address, int is_write,
                         size_t size) SANITIZER_WEAK;
void *__tsan_get_current_fiber(void) SANITIZER_WEAK;
void *__tsan_create_fiber(unsigned int flags) SANITIZER_WEAK;
void __tsan_destroy_fiber(void *fiber) SANITIZER_WEAK;
void __tsan_switch_to_fiber(void *fiber, unsigned int flags) SANITIZER_WEAK;
void __tsan_set_fiber_name(void *fiber, const char *name) SANITIZER_WEAK;
void __tsan_acquire(void *place) SANITIZER_WEAK;
void __tsan_release(void *place) SANITIZER_WEAK;
void __tsan_read_range(void *begin, size_t size) SANITIZER_WEAK;
void __tsan_write_range(void *begin, size_t size) SANITIZER_WEAK;
void AnnotateIgnoreReadsBegin(const char *file, int line) SANITIZER_WEAK;
void AnnotateIgnoreReadsEnd(const char *file, int line) SANITIZER_WEAK;
void AnnotateIgnoreWritesBegin(const char *file, int line) SANITIZER_WEAK;
void AnnotateIgnoreWritesEnd(const char *file, int line) SANITIZER_WEAK;
void __msan_unpoison(const volatile void *begin, size_t size) SANITIZER_WEAK;
long __msan_test_shadow(const volatile void *begin, size_t size) SANITIZER_WEAK;
void __msan_check_mem_is_initialized(const volatile void *begin, size_t size) SANITIZER_WEAK;
void __msan_scoped_disable_interceptor_checks(void) SANITIZER_WEAK;
void __msan_scoped_enable_interceptor_checks(void) SANITIZER_WEAK;

/* The thread runs code of ital from here on. Calls nest. Any thread, also with locks held. */
static inline void sanitizer_ignore_begin(void)
{
    if (unlikely(__tsan_create_fiber != NULL)) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    if (unlikely(__msan_scoped_disable_interceptor_checks != NULL))
        __msan_scoped_disable_interceptor_checks();
}

static inline void sanitizer_ignore_end(void)
{
    if (unlikely(__msan_scoped_enable_interceptor_checks != NULL))
        __msan_scoped_enable_interceptor_checks();
    if (unlikely(__tsan_create_fiber != NULL)) {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
}

/* Does it ask which octets are defined? */
static inline bool sanitizer_wants_definitions(void)
{
    return __msan_unpoison != NULL;
}

/* ital has filled these octets of the program's: they are defined. NULL: nothing. */
static inline void sanitizer_defined(const void *octets, size_t length)
{
    if (unlikely(__msan_unpoison != NULL) && octets)
        __msan_unpoison(octets, length);
}
#else
static inline void sanitizer_ignore_begin(void)
{
}
static inline void sanitizer_ignore_end(void)
{
}
static inline bool sanitizer_wants_definitions(void)
{
    return false;
}
static inline void sanitizer_defined(const void *octets, size_t length)
{
    (void)octets;
    (void)length;
}
#endif

/* In a call with an output, `pointer` being a name: its octets are defined when the call returns,
 * whatever it returns. */
struct sanitizer_output {
    const void *octets;
    size_t length;
};
static inline void sanitizer_output_end(const struct sanitizer_output *output)
{
    sanitizer_defined(output->octets, output->length);
}
#define SANITIZER_OUTPUT(pointer)                          \
    __attribute__((cleanup(sanitizer_output_end), unused)) \
    const struct sanitizer_output output_of_##pointer = { (pointer), sizeof(*(pointer)) }

#endif
