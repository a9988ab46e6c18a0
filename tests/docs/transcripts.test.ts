import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { setup } from '../support/agentctl.ts';
import { ground, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';
import { checkTranscript } from './transcript.ts';

test.each(['docs/first-task.md', 'docs/undo.md'])('the transcript of %s comes out as it is shown', (page) => {
  const { root, path } = setup();
  const bin = join(root, '..', 'bin');
  for (const folder of [root, bin]) mkdirSync(folder, { mode: 0o700 });
  const program = `#!/bin/sh\nexec '${process.execPath}' '${resolve('dist/agentctl.js')}' "$@"\n`;
  writeFileSync(join(bin, 'agentctl'), program);
  chmodSync(join(bin, 'agentctl'), 0o755);
  // Without a sandbox each command would wait for an approval.
  writeFileSync(path('agentd.json'), '{ "permissions": [{ "allow": "shell" }] }');
  checkTranscript(page, { AGENTD_WORKSPACE: root, PATH: `${bin}:${process.env['PATH']}` }, root);
});

const TALKS = [
  {
    says: ['Report on the files', 'stop, those are the wrong files: only the PDFs', 'continue'],
    undoes: ['give it 20 more, please', 'not done yet, the year is missing', 'continue'],
    answers: ['[Step] Find them\n[Step] Count them\n[Step] Write it up', 'Three files. [Done]', 'Only PDFs.'],
    after: ['Two PDFs. [Done]', 'I write it.', 'report.txt is written. [Done]', 'The year!', 'The year is in. [Done]'],
  },
  {
    says: ['写一份文件报告', '先停一下，文件不对：只要 PDF', '继续'],
    undoes: ['再给你20次', '还没完成，缺少年份', '继续'],
    answers: ['[步骤] 查找文件\n[步骤] 统计数量\n[步骤] 写成报告', '共三份文件。[完成]', '只统计 PDF。'],
    after: ['两份 PDF。[完成]', '开始写。', '报告已写入 report.txt。[完成]', '补上年份。', '年份已补上。[完成]'],
  },
];
const COMMANDS = ['ls', 'sleep 60', 'ls *.pdf', '', 'echo 2 PDFs > report.txt', '', 'echo 2026 >> report.txt'];

test('the conversations of docs/conversation.md come out as they are shown, and the model reads what was said', async () => {
  const shown = readFileSync('docs/conversation.md', 'utf8');
  for (const { says, undoes, answers, after } of TALKS) {
    const script = [...answers, ...after].map((text, at) => {
      const command = COMMANDS[at];
      return { text, ...(command && { calls: [{ name: 'shell', args: JSON.stringify({ command }) }] }) };
    });
    const server = await startOpenAI(script);
    const on = ground();
    on.config({ approvals: 'auto', limits: { iterations: 2 } });
    await on.start(['--base-url', server.url, '--model', 'm']);
    on.sh('report', 'mkdir -p inbox work && touch work/a.pdf work/b.pdf work/c.txt');
    const lines: string[] = [];
    for (const [at, said] of [...says, ...undoes].entries()) {
      writeFileSync(join(on.session('report'), 'inbox', `${at}.md`), said);
      lines.push(`> ${said}`);
      if (at === 0) {
        const begun = () => on.events('report').filter(({ type }) => type === 'tool.started').length === 2;
        await until(begun, 'the command that is stopped');
        continue;
      }
      // The stop has a reply of its own, and the run that it ends another.
      const reply = await on.file('report', at === 1 ? 'outbox/0.md' : `outbox/${at}.md`);
      lines.push(reply.split('---\n\n')[1]?.trim() ?? reply, '');
    }
    expect(shown).toContain(lines.join('\n'));
    const requests = server.requests.map(({ body }) => JSON.stringify(body.messages));
    for (const [from, said] of [
      [2, says[1]],
      [6, undoes[1]],
    ] as const)
      expect(requests.map((request) => request.includes(said ?? ''))).toEqual(requests.map((_, at) => at >= from));
    await server.close();
  }
}, 60_000);
