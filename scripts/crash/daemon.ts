import { runDaemon } from '../../src/main/run-daemon.ts';
import type { ScenarioPaths } from './scenario.ts';

/** Starts a daemon without faults in this process, with the model of the scenario. */
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
