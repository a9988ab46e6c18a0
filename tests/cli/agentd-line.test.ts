import { expect, test } from 'vitest';
import { readDaemonLine } from '../../src/frontends/agentd-line.ts';
import { readByYargs } from '../../src/frontends/agentd-yargs.ts';

test('a plain command line of agentd means what yargs says it means', async () => {
  const lines = [
    [],
    ['--workspace', '/w'],
    ['--workspace', '/w', '--log-level', 'debug'],
    ['--model', 'runbook', '--allow-network-fs', '--config', 'a b.json'],
    ['--base-url', 'http://127.0.0.1:1/v1', '--api-key-env', 'KEY', '--model', '1e3'],
    ['--log-level', 'warn', '--allow-network-fs'],
  ];
  for (const line of lines) {
    const read = await readByYargs(line);
    expect(readDaemonLine(line), line.join(' ')).toBeDefined();
    const { workspace, config, model, baseUrl, apiKeyEnv, logLevel, allowNetworkFs } = read ?? { logLevel: undefined };
    expect({ workspace, config, model, baseUrl, apiKeyEnv, logLevel, allowNetworkFs }).toMatchObject({
      workspace: undefined,
      ...readDaemonLine(line),
    });
  }
});

test('a command line of agentd with anything else is left to yargs', () => {
  const others = [
    ['--help'],
    ['--version'],
    ['word'],
    ['--workspace'],
    ['--workspace', '--model', 'x'],
    ['--workspace=/w'],
    ['--workspace', '/a', '--workspace', '/b'],
    ['--model', '"quoted"'],
    ['--log-level', 'loud'],
    ['--allow-network-fs', 'false'],
    ['--allow-network-fs', '--allow-network-fs'],
    ['--baseUrl', 'x'],
    ['--toString', 'x'],
  ];
  for (const line of others) expect(readDaemonLine(line), line.join(' ')).toBeUndefined();
});
