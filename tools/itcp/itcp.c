/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: copies files and directories over an Interface by RDMA, and checks their sums.
 */
#include "itcp.h"

#include <errno.h>
#include <getopt.h> /* optind */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/options.h"
#include "tools/common/tool.h"

struct arguments {
    struct copy_options copy;
    bool listen, once, no_overwrite;
    const char *bind, *secret_file;
    struct copy_secret secret;
    uint32_t given; /* a bit for each of `sided` */
};

/* Options that only one side has. */
static const struct {
    uint32_t given;
    bool client;
    const char *name;
} sided[] = {
    { 1, true, "-r" },
    { 2, true, "-v" },
    { 4, true, "--tcp" },
    { 8, true, "--progress" },
    { 16, true, "--no-progress" },
    { 32, false, "--once" },
    { 64, false, "--bind" },
    { 128, false, "--no-overwrite" },
};

/* The first of that side that was given; NULL: none. */
static const char *given_of(const struct arguments *arguments, bool client)
{
    for (size_t i = 0; i < sizeof(sided) / sizeof(sided[0]); i++)
        if (sided[i].client == client && arguments->given & sided[i].given)
            return sided[i].name;
    return NULL;
}

static int take_progress(void *into, const char *text)
{
    (void)text;
    ((struct arguments *)into)->copy.progress = PROGRESS_ALWAYS;
    return -1;
}

static int take_no_progress(void *into, const char *text)
{
    (void)text;
    ((struct arguments *)into)->copy.progress = PROGRESS_NEVER;
    return -1;
}

#define TO(member) TOOL_TO(struct arguments, member)

static const struct tool_option rows[] = {
    TOOL_SWITCH('l', "listen", TO(listen), 0, "be the server"),
    TOOL_VALUE(TOOL_NUMBER, 'p', "port", "PORT", TO(copy.port), 0, 65535, "port: 0 to 65535", 0,
               "port (default 7471; server: 0 takes any free one and prints it)"),
    TOOL_ARGUMENT('I', "interface", "NAME", TO(copy.interface), "@interface", 0,
                  "interface to use (default: the first usable one, see itinfo)"),
    TOOL_SWITCH('q', "quiet", TO(copy.quiet), 0, "only errors"),
    TOOL_SWITCH(0, "overwrite", TO(copy.overwrite), 0,
                "replace files that exist; done only if both sides say so"),
    TOOL_ARGUMENT(0, "secret-file", "FILE", TO(secret_file), "@file", 0,
                  "only with a peer that knows the same secret (mode 600)"),
    TOOL_HEADLINE("Server:"),
    TOOL_SWITCH('1', "once", TO(once), 32, "end after one client"),
    TOOL_ARGUMENT(0, "bind", "ADDRESS", TO(bind), NULL, 64,
                  "listen on this address only (default: on all)"),
    TOOL_SWITCH(0, "no-overwrite", TO(no_overwrite), 128,
                "never replace a file (the default; for older scripts)"),
    TOOL_HEADLINE("Client:"),
    TOOL_SWITCH('r', "recursive", TO(copy.recursive), 1,
                "copy directories with all that is in them"),
    TOOL_SWITCH('v', "verbose", TO(copy.verbose), 2, "a line with the sum for each file"),
    TOOL_BY(0, "progress", NULL, take_progress, NULL, 8,
            "show progress even if stderr is no terminal"),
    TOOL_BY(0, "no-progress", NULL, take_no_progress, NULL, 16, "show none"),
    TOOL_SWITCH('T', "tcp", TO(copy.tcp), 4,
                "copy once more over plain TCP (to nowhere) and show the ratio"),
};

static const struct tool_table table = {
    .usage = "Usage: itcp -l [-p PORT] [-I NAME] [--once] [--overwrite] [-q] DIRECTORY   (server)\n"
             "       itcp [OPTION]... FILE|DIR... HOST[:PORT]                    (client)\n"
             "Copies files to a server's DIRECTORY by RDMA over an IT-API interface; each file is "
             "checked by\n"
             "its SHA-256 sum on both sides before it gets its name.\n",
    .notes = "HOST is a name, an IPv4 or IPv6 address (with %scope if link-local); [ADDRESS]:PORT "
             "for IPv6.\n"
             "Without --secret-file whoever reaches the port can fill DIRECTORY; with it the data "
             "is still not\n"
             "encrypted. Files are written as NAME.RANDOM.part and renamed at the end; a copy that "
             "broke off is\n"
             "not resumed. Modes are the client's without what the server's umask takes away.\n"
             "Exit status: 0 if all is there and equal, 1 if not, 2 for wrong arguments.\n"
             "Example: itcp -l incoming &  itcp big.iso localhost\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .given = offsetof(struct arguments, given),
    .operands = "@file @host",
    .server = "@directory",
};

static int run_server(int argc, char **argv, const struct arguments *arguments)
{
    struct copy_service service = { .interface = arguments->copy.interface,
                                    .port = arguments->copy.port,
                                    .once = arguments->once,
                                    .quiet = arguments->copy.quiet,
                                    .bind = arguments->bind,
                                    .secret = arguments->copy.secret,
                                    .may_overwrite = arguments->copy.overwrite };
    struct stat about;

    if (given_of(arguments, true))
        return tool_usage("%s is for clients", given_of(arguments, true));
    if (arguments->no_overwrite && arguments->copy.overwrite)
        return tool_usage("--overwrite and --no-overwrite: give one of them");
    if (optind == argc)
        return tool_usage("DIRECTORY is missing: where shall files go?");
    if (optind + 1 < argc)
        return tool_usage("a server takes one DIRECTORY, not also '%s'", argv[optind + 1]);
    service.directory = argv[optind];
    if (stat(service.directory, &about))
        return tool_usage("directory '%s': %s", service.directory, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return tool_usage("'%s' is no directory", service.directory);
    tool_catch_signals();
    return copy_server(&service);
}

static int run_client(int argc, char **argv, struct arguments *arguments)
{
    struct copy_options *copy = &arguments->copy;
    struct stat about;

    if (given_of(arguments, false))
        return tool_usage("%s is for servers (with -l)", given_of(arguments, false));
    if (argc - optind < 2)
        return tool_usage(optind == argc ? "FILE and HOST are missing; servers are started with -l"
                                         : "HOST is missing behind the files");
    if (!address_parse(argv[argc - 1], copy->host, &copy->port))
        return tool_usage("'%s' is no HOST[:PORT]", argv[argc - 1]);
    if (!copy->port)
        return tool_usage("a client needs the server's port; 0 is for servers");
    argv[argc - 1] = NULL;
    copy->sources = argv + optind;
    for (char *const *path = copy->sources; *path; path++) {
        if (stat(*path, &about))
            return tool_usage("'%s': %s", *path, strerror(errno));
        if (S_ISDIR(about.st_mode) && !copy->recursive)
            return tool_usage("'%s' is a directory; give -r to copy it", *path);
    }
    tool_catch_signals();
    return copy_client(copy);
}

int main(int argc, char **argv)
{
    struct arguments arguments = { .copy = { .port = TOOL_PORT, .progress = PROGRESS_TERMINAL } };
    int result;

    tool_init("itcp");
    result = tool_read_options(&table, argc, argv, &arguments);
    if (result < 0 && arguments.secret_file) {
        result = copy_read_secret(arguments.secret_file, &arguments.secret);
        arguments.copy.secret = &arguments.secret;
    }
    if (result < 0)
        result = arguments.listen ? run_server(argc, argv, &arguments)
                                  : run_client(argc, argv, &arguments);
    copy_forget_secret(&arguments.secret);
    return result;
}
