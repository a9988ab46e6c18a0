import { runDaemon } from '../../src/main/run-daemon.ts';
import type { ScenarioPaths } from './scenario.ts';

/** A daemon in this process that nothing happens to, with the model of the scenario. Loses its workspace to nobody. */
export const startDaemon = (paths: ScenarioPaths) =>
  runDaemon({
    root: paths.root,
    configFile: 'agentd.json',
    flags: { name: `scripted:${paths.script}` },
    logLevel: 'error',
    env: process.env,
    onLost: (why) => {
      throw why;
    },
  });
