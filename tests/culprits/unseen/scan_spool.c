// Reads the whole folder of the spool to find the file of each job.
#include "hclock.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
static char spool[] = "/tmp/spool-XXXXXX";
static long find_job(long id) {
    char name[32]; long at = -1, n = 0; snprintf(name, sizeof name, "job%ld.", id);
    IN;
    DIR *d = opendir(spool); // HERE
    for (struct dirent *e; (e = readdir(d)); n++) // HERE
        if (!strncmp(e->d_name, name, strlen(name))) at = n; // HERE
    closedir(d); // HERE
    OUT;
    return at;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long jobs = argc > 1 ? atol(argv[1]) : 2500; enum { FILES = 2000 }; char path[100]; long sum = 0;
    if (!mkdtemp(spool)) return 1;
    for (int i = 0; i < FILES; i++) { snprintf(path, sizeof path, "%s/job%d.txt", spool, i); close(open(path, O_CREAT | O_WRONLY, 0600)); }
    for (long i = 0; i < jobs; i++) sum += find_job((long)(mixed(i) % FILES)) >= 0;
    for (int i = 0; i < FILES; i++) { snprintf(path, sizeof path, "%s/job%d.txt", spool, i); unlink(path); }
    rmdir(spool); printf("%ld\n", sum); CLOCK_SAY;
}
