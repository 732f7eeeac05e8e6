# SPDX-License-Identifier: BSD-3-Clause
# Macros of ital's configure.ac.

# ITAL_FEATURE(LABEL, WORD, [VERSION])
# Adds one line to the table printed at the end of configure.
AC_DEFUN([ITAL_FEATURE],
[ital_summary="${ital_summary}
$(printf '  %-34s %-4s %s' "$1" "$2" "$3")"])

# ITAL_WITH(NAME, VARIABLE, WHAT FOR, CHECK)
# An optional library, --with-NAME / --without-NAME.  Without either it is used where it is found;
# --with-NAME makes its absence an error.  CHECK is shell code that sets ital_found=yes where the
# library is there, and may set ital_version.  Defines HAVE_VARIABLE (config.h and conditional).
AC_DEFUN([ITAL_WITH],
[AC_ARG_WITH([$1], [AS_HELP_STRING([--without-$1], [do without $1 ($3)])],
    [], [with_$1=auto])
ital_found=no ital_version=
AS_IF([test "x$with_$1" != xno],
    [$4
    AS_IF([test "x$ital_found$with_$1" = xnoyes],
        [AC_MSG_ERROR([--with-$1 was given, but $1 ($3) was not found; install it or say --without-$1])])])
AS_IF([test "$ital_found" = yes],
    [AC_DEFINE([HAVE_$2], [1], [Define to 1 if $1 is used: $3.])])
AM_CONDITIONAL([HAVE_$2], [test "$ital_found" = yes])
ITAL_FEATURE([$1 ($3)], [$ital_found], [$ital_version])])

# ITAL_WITH_PKG(NAME, VARIABLE, MODULES, WHAT FOR)
# The same, found by pkg-config; sets VARIABLE_CFLAGS and VARIABLE_LIBS.
AC_DEFUN([ITAL_WITH_PKG],
[ITAL_WITH([$1], [$2], [$4],
    [PKG_CHECK_MODULES([$2], [$3],
        [ital_found=yes
        ital_version=$($PKG_CONFIG --modversion "$3" 2>/dev/null | head -n 1)], [:])])])

# ITAL_CC_FLAG(FLAG, VARIABLE)
# Appends FLAG to VARIABLE where the compiler takes it.
AC_DEFUN([ITAL_CC_FLAG],
[AS_VAR_PUSHDEF([CACHE], [ital_cv_cc_$1])
AC_CACHE_CHECK([whether $CC takes $1], [CACHE],
    [ital_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([CACHE], [yes])],
        [AS_VAR_SET([CACHE], [no])])
    CFLAGS=$ital_save_CFLAGS])
AS_VAR_IF([CACHE], [yes], [$2="$$2 $1"])
AS_VAR_POPDEF([CACHE])])
