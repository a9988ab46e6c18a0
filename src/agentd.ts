#!/usr/bin/env node
import { agentd } from './frontends/agentd.ts';

/** Node opens all files of a module graph at once. Part after part they need fewer descriptors than a low `ulimit -n` gives. */
async function composed(): Promise<typeof import('./compose.ts')> {
  await import('zod');
  await import('./protocol/schemas.ts');
  await import('./core/decide.ts');
  await import('./store/index.ts');
  await import('./tools/index.ts');
  return import('./compose.ts');
}

process.exit(await agentd(process.argv.slice(2), async (start) => (await composed()).runDaemon(start)));
