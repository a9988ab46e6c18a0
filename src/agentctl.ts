#!/usr/bin/env node
import { fileURLToPath } from 'node:url';
import { agentctl } from './frontends/cli/main.ts';

process.exitCode = await agentctl(process.argv.slice(2), {
  program: fileURLToPath(new URL('./agentd.js', import.meta.url)),
  doctor: async (question) => (await import('./doctor.ts')).examine(question),
  jobs: async (folder, stop) => (await import('./jobs-told.ts')).jobsTold(folder, stop),
});
