import child from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

/** A test that waits for a process in the same breath obeys no timeout of Vitest: the process gets one, shorter than that of a run. */
const LIMIT_MS = 200_000;
const BOUNDED = Symbol.for('agentd.tests.bounded');

// Loaded before each test file, in a process that many of them share.
for (const name of ['spawnSync', 'execFileSync', 'execSync'] as const) {
  const real: unknown = Reflect.get(child, name);
  if (typeof real !== 'function' || BOUNDED in real) continue;
  const bounded = (...args: unknown[]): unknown => {
    const last = args.at(-1);
    const options = typeof last === 'object' && last !== null && !Array.isArray(last) ? args.pop() : {};
    return Reflect.apply(real, child, [...args, { timeout: LIMIT_MS, killSignal: 'SIGKILL', ...Object(options) }]);
  };
  Reflect.set(child, name, Object.assign(bounded, { [BOUNDED]: true }));
}
syncBuiltinESMExports();
