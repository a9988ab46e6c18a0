#!/usr/bin/env node
import { agentd } from './frontends/agentd.ts';

process.exit(await agentd(process.argv.slice(2), async (start) => (await import('./compose.ts')).runDaemon(start)));
