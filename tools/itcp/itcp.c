/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: copies files and directories over an Interface by RDMA, and checks their sums.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "itcp.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/tool.h"

static const char help_text[] =
    "Usage: itcp -l [-p PORT] [-I NAME] [--once] [--overwrite] [-q] DIRECTORY   (server)\n"
    "       itcp [OPTION]... FILE|DIR... HOST[:PORT]                    (client)\n"
    "Copies files to a server's DIRECTORY by RDMA over an IT-API interface; each file is checked "
    "by\n"
    "its SHA-256 sum on both sides before it gets its name.\n"
    "\n"
    "  -l, --listen        be the server\n"
    "  -p, --port PORT     port (default 7471; server: 0 takes any free one and prints it)\n"
    "  -I, --interface NAME  interface to use (default: the first usable one, see itinfo)\n"
    "  -q, --quiet         only errors\n"
    "      --overwrite     replace files that exist; done only if both sides say so\n"
    "      --secret-file FILE  only with a peer that knows the same secret (mode 600)\n"
    "Server:\n"
    "  -1, --once          end after one client\n"
    "      --bind ADDRESS  listen on this address only (default: on all)\n"
    "      --no-overwrite  never replace a file (the default; for older scripts)\n"
    "Client:\n"
    "  -r, --recursive     copy directories with all that is in them\n"
    "  -v, --verbose       a line with the sum for each file\n"
    "      --progress      show progress even if stderr is no terminal\n"
    "      --no-progress   show none\n"
    "  -T, --tcp           copy once more over plain TCP (to nowhere) and show the ratio\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version\n"
    "\n"
    "HOST is a name, an IPv4 or IPv6 address (with %scope if link-local); [ADDRESS]:PORT for "
    "IPv6.\n"
    "Without --secret-file whoever reaches the port can fill DIRECTORY; with it the data is still "
    "not\n"
    "encrypted. Files are written as NAME.RANDOM.part and renamed at the end; a copy that broke "
    "off is\n"
    "not resumed. Modes are the client's without what the server's umask takes away.\n"
    "Exit status: 0 if all is there and equal, 1 if not, 2 for wrong arguments.\n"
    "Example: itcp -l incoming &  itcp big.iso localhost\n";

struct arguments {
    struct copy_options copy;
    bool listen, once, no_overwrite;
    const char *bind, *secret_file;
    struct copy_secret secret;
    const char *client_option, *server_option; /* the first one given, for messages */
};

enum long_only {
    OPT_OVERWRITE = 256,
    OPT_NO_OVERWRITE,
    OPT_PROGRESS,
    OPT_NO_PROGRESS,
    OPT_BIND,
    OPT_SECRET_FILE
};

/* false: not one of them. */
static bool take_client_flag(struct arguments *arguments, int letter)
{
    struct copy_options *copy = &arguments->copy;

    switch (letter) {
    case 'r':
        copy->recursive = true;
        arguments->client_option = "-r";
        return true;
    case 'v':
        copy->verbose = true;
        arguments->client_option = "-v";
        return true;
    case 'T':
        copy->tcp = true;
        arguments->client_option = "--tcp";
        return true;
    case OPT_PROGRESS:
        copy->progress = PROGRESS_ALWAYS;
        arguments->client_option = "--progress";
        return true;
    case OPT_NO_PROGRESS:
        copy->progress = PROGRESS_NEVER;
        arguments->client_option = "--no-progress";
        return true;
    default: return false;
    }
}

/* Returns -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option longs[] = {
        { "listen", no_argument, NULL, 'l' },
        { "port", required_argument, NULL, 'p' },
        { "interface", required_argument, NULL, 'I' },
        { "quiet", no_argument, NULL, 'q' },
        { "once", no_argument, NULL, '1' },
        { "no-overwrite", no_argument, NULL, OPT_NO_OVERWRITE },
        { "bind", required_argument, NULL, OPT_BIND },
        { "secret-file", required_argument, NULL, OPT_SECRET_FILE },
        { "recursive", no_argument, NULL, 'r' },
        { "overwrite", no_argument, NULL, OPT_OVERWRITE },
        { "verbose", no_argument, NULL, 'v' },
        { "progress", no_argument, NULL, OPT_PROGRESS },
        { "no-progress", no_argument, NULL, OPT_NO_PROGRESS },
        { "tcp", no_argument, NULL, 'T' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    static const char shorts[] = ":lp:I:q1rvThV";
    uint64_t number;
    int letter;

    while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (take_client_flag(arguments, letter))
            continue;
        switch (letter) {
        case 'l': arguments->listen = true; break;
        case 'p':
            if (!tool_parse_number(optarg, 0, 65535, &number))
                return tool_usage("'%s' is no port: 0 to 65535", optarg);
            arguments->copy.port = (uint16_t)number;
            break;
        case 'I': arguments->copy.interface = optarg; break;
        case 'q': arguments->copy.quiet = true; break;
        case '1':
            arguments->once = true;
            arguments->server_option = "--once";
            break;
        case OPT_OVERWRITE: arguments->copy.overwrite = true; break;
        case OPT_SECRET_FILE: arguments->secret_file = optarg; break;
        case OPT_BIND:
            arguments->bind = optarg;
            arguments->server_option = "--bind";
            break;
        case OPT_NO_OVERWRITE:
            arguments->no_overwrite = true;
            arguments->server_option = "--no-overwrite";
            break;
        case 'h': fputs(help_text, stdout); return TOOL_OK;
        case 'V': tool_version(); return TOOL_OK;
        default: return tool_bad_option(letter, argv, shorts);
        }
    }
    return -1;
}

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

    if (arguments->client_option)
        return tool_usage("%s is for clients", arguments->client_option);
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

    if (arguments->server_option)
        return tool_usage("%s is for servers (with -l)", arguments->server_option);
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
    result = parse(argc, argv, &arguments);
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
