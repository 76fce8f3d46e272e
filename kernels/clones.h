/* FQ_CLONES before a static function compiles it also for AVX2 with FMA and for AVX-512; the machine picks at load. */
#ifndef FASTQUAD_CLONES_H
#define FASTQUAD_CLONES_H

#include <stdlib.h> /* a libc header, so that __GLIBC__ is known */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FQ_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FQ_CLONES
#endif

#endif
