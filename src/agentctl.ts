#!/usr/bin/env node
import { fileURLToPath } from 'node:url';
import { runAgentctl } from './frontends/cli/index.ts';

process.exitCode = await runAgentctl(process.argv.slice(2), {
  program: fileURLToPath(new URL('./agentd.js', import.meta.url)),
  doctor: async (question) => (await import('./main/doctor.ts')).runDoctor(question),
  jobs: async (folder, stop) => (await import('./main/command-services.ts')).listJobs(folder, stop),
  login: async (question) => (await import('./main/command-services.ts')).logInAtServer(question),
});
