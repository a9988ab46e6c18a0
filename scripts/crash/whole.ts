import { runDaemon } from '../../src/main/run-daemon.ts';
import type { Place } from './story.ts';

/** A daemon in this process that nothing happens to, with the model of the story. Loses its workspace to nobody. */
export const startWhole = (there: Place) =>
  runDaemon({
    root: there.root,
    configFile: 'agentd.json',
    flags: { name: `scripted:${there.script}` },
    logLevel: 'error',
    env: process.env,
    onLost: (why) => {
      throw why;
    },
  });
