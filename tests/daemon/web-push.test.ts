import { expect, test } from 'vitest';
import { encryptForBrowser } from '../../src/daemon/notices/web-push.ts';

test('a text is encrypted for a browser as in the example of RFC 8291', () => {
  const from = (text: string) => Buffer.from(text, 'base64url');
  const keys = {
    p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
    auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  };
  const privateKey = from('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw');
  const body = encryptForBrowser(Buffer.from('When I grow up, I want to be a watermelon'), keys, {
    salt: from('DGv6ra1nlYgDCS1FRnbzlw'),
    privateKey,
  });
  expect(body.toString('base64url')).toBe(
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
  );
});
