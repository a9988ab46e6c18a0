// npm sets the mode of bins at install time only; a rebuilt file must stay runnable by its path too.
import { chmodSync } from 'node:fs';

for (const bin of ['dist/agentd.js', 'dist/agentctl.js']) chmodSync(bin, 0o755);
