// npm sets the mode of bins at install time only; a rebuilt file must stay runnable by its path too.
import { chmodSync } from 'node:fs';

for (const bin of ['dist/frontends/agentd.js', 'dist/frontends/cli/main.js']) chmodSync(bin, 0o755);
