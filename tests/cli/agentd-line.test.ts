import { expect, test } from 'vitest';
import { parseDaemonLine } from '../../src/frontends/agentd/daemon-yargs.ts';
import { parsePlainDaemonLine } from '../../src/frontends/command-line.ts';

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
    const read = await parseDaemonLine(line);
    expect(parsePlainDaemonLine(line), line.join(' ')).toBeDefined();
    const { workspace, config, model, baseUrl, apiKeyEnv, logLevel, allowNetworkFs } = read ?? { logLevel: undefined };
    expect({ workspace, config, model, baseUrl, apiKeyEnv, logLevel, allowNetworkFs }).toMatchObject({
      workspace: undefined,
      ...parsePlainDaemonLine(line),
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
  for (const line of others) expect(parsePlainDaemonLine(line), line.join(' ')).toBeUndefined();
  return expect(parseDaemonLine(['--modle', 'x', '--loglevel=debug'])).rejects.toThrow(
    'Unknown arguments: modle, loglevel\nDid you mean "--model", "--log-level"?\nSee: agentd --help',
  );
});
