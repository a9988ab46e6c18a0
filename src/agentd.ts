#!/usr/bin/env node
import { runAgentd } from './frontends/agentd/daemon-process.ts';

process.exit(
  await runAgentd(process.argv.slice(2), async (start) => (await import('./main/run-daemon.ts')).runDaemon(start)),
);
