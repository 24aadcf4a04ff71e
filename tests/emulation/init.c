// The first and only program of the emulated machine: runs the lines of /commands one after another, says how they
// ended, and turns the machine off.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, WORDS_MAX = 64, POWER_PORT = 0x8900 };

static int run(char *line) {
    char *words[WORDS_MAX] = {0};
    int count = 0;
    for (char *word = strtok(line, " \n"); word && count < WORDS_MAX - 1; word = strtok(NULL, " \n"))
        words[count++] = word;
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        _exit(127);
    }
    int status = -1;
    return child < 0 || waitpid(child, &status, 0) != child ? -1 : status;
}

// Names what the processor has of AVX-512 and AMX, as the kernel sees it.
static void show_processor(void) {
    char line[LINE_MAX_BYTES];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info)) {
        if (strncmp(line, "flags", 5) != 0) continue;
        for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
            if (strncmp(word, "avx", 3) == 0 || strncmp(word, "amx", 3) == 0) printf("%s ", word);
        puts("");
    }
}

int main(void) {
    mkdir("/proc", 0755);
    mkdir("/tmp", 0777);
    mount("none", "/proc", "proc", 0, NULL);
    mkdir("/dev", 0755);
    mount("none", "/dev", "devtmpfs", 0, NULL);
    show_processor();
    int failed = 0;
    char line[LINE_MAX_BYTES];
    FILE *commands = fopen("/commands", "r");
    while (commands && fgets(line, sizeof line, commands)) {
        printf("$ %s", line);
        fflush(stdout);
        int status = run(line);
        if (status != 0) printf("failed: wait status %d\n", status);
        failed |= status != 0;
    }
    puts(commands && !failed ? "emulation: passed" : "emulation: failed");
    fflush(stdout);
    tcdrain(STDOUT_FILENO);
    ioperm(POWER_PORT, 1, 1);
    for (const char *c = "Shutdown"; *c; c++) outb(*c, POWER_PORT);
    for (;;) pause();
}
