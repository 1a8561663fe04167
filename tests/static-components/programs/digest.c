/* Digests, a cipher, a signature: code in assembly, with tables of functions. */
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 20;
  static unsigned char in[16384], out[16384 + 64], sum[64];
  unsigned n = 0;
  unsigned long all = 0;
  for (int r = 0; r < rounds; r++) {
    memset(in, r, sizeof in);
    const EVP_MD *kinds[] = {EVP_sha256(), EVP_sha512(), EVP_md5(), EVP_sha3_256()};
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    EVP_DigestInit_ex(c, kinds[r % 4], 0);
    for (int i = 0; i < 4; i++) EVP_DigestUpdate(c, in, sizeof in / 4);
    EVP_DigestFinal_ex(c, sum, &n);
    EVP_MD_CTX_free(c);
    EVP_CIPHER_CTX *e = EVP_CIPHER_CTX_new();
    int length = 0, rest = 0;
    EVP_EncryptInit_ex(e, r % 2 ? EVP_aes_256_cbc() : EVP_chacha20(), 0, sum, sum + 16);
    EVP_EncryptUpdate(e, out, &length, in, sizeof in);
    EVP_EncryptFinal_ex(e, out + length, &rest);
    EVP_CIPHER_CTX_free(e);
    for (unsigned i = 0; i < n; i++) all = all * 31 + sum[i] + out[i * 7];
  }
  printf("%lx\n", all);
  return 0;
}
