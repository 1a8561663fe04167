import json,re,hashlib,sys,threading,zlib,time
def work(n,out,i):
    h=hashlib.sha256()
    for k in range(n):
        d={'a':list(range(k%50)),'b':'x'*(k%100),'c':{str(j):j*1.5 for j in range(k%20)}}
        s=json.dumps(d,sort_keys=True); e=json.loads(s); assert e==json.loads(json.dumps(d))
        h.update(zlib.compress(re.sub(r'\d+',lambda m:m.group()[::-1],s).encode()))
        try: raise ValueError(k)
        except ValueError as x: h.update(str(x).encode())
    out[i]=h.hexdigest()
o=[None]*4; ts=[threading.Thread(target=work,args=(int(sys.argv[1]),o,i)) for i in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]; print(o[0],len(set(o)))
