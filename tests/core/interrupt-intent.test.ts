import { expect, test } from 'vitest';
import { z } from 'zod';
import { classifyIntent } from '../../src/core/intent/intent.ts';
import { casesOf } from './case-file.ts';

const Input = z.strictObject({ text: z.string() });
const Expected = z.strictObject({ kind: z.enum(['correction', 'append', 'stop', 'task']), cancels: z.boolean() });

for (const one of casesOf('interrupt-intent', Input, Expected)) {
  test(one.fact, () => {
    const { kind } = classifyIntent(one.input.text, { planStatus: 'running' });
    expect(kind).toBe(one.expect.kind);
    expect(kind === 'stop').toBe(one.expect.cancels);
  });
}

const kindOf = (text: string): string => classifyIntent(text, { planStatus: 'running' }).kind;

test('a first line that begins with a slash is a command, given on without it', () => {
  expect(classifyIntent('/continue skip the download')).toMatchObject({
    kind: 'command',
    rest: 'continue skip the download',
  });
  expect(classifyIntent('  /stop\n')).toMatchObject({ kind: 'command', rest: 'stop' });
});

test('a pause is a whole message that says so', () => {
  for (const text of ['pause', 'Please pause.', '暂停', '先暫停', '一時停止してください'])
    expect(kindOf(text), text).toBe('pause');
  for (const text of ['pause the video at 0:30', '暂停键在哪', 'pause?']) expect(kindOf(text), text).toBe('task');
});

test('"not done yet" takes the last step back and hands on what is missing', () => {
  for (const text of ['not done yet', "It's not finished yet.", '还没完成', '還沒完成！', 'noch nicht fertig'])
    expect(kindOf(text), text).toBe('undo');
  expect(classifyIntent('还没完成，缺两个文件')).toMatchObject({ kind: 'undo', rest: '缺两个文件' });
  expect(classifyIntent('Not done yet: two files are missing')).toMatchObject({
    kind: 'undo',
    rest: 'two files are missing',
  });
  for (const text of ['还没完成吗？', 'not done yet?', '没完成的有哪些', 'Done'])
    expect(kindOf(text), text).toBe('task');
});

test('stops in other languages stop, and their negations do not', () => {
  for (const text of ['停下来', '別再寫了', '中止', 'Stopp!', 'arrête', 'やめてください', 'cancel that'])
    expect(kindOf(text), text).toBe('stop');
  for (const text of ['不要停', 'ne pas arrêter', 'stop words list', 'cancel my subscription page', '取消按钮不见了'])
    expect(kindOf(text), text).toBe('task');
});

test('"stop" before what to do instead corrects and cuts nothing short', () => {
  expect(kindOf('stop, use Go instead')).toBe('correction');
  expect(kindOf('停止生成，改用 Go')).not.toBe('stop');
});
