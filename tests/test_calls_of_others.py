"""The calls that people write most on arrays and tensors of NumPy, PyTorch and Paddle, on phix's:
each is right, or says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix.core.errors import PhixError

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(0)
A, M, T = (RNG.normal(size=s).astype("f") for s in ((3, 4), (4, 4), (2, 3, 4)))
ARRAYS = {
    "x": A, "y": 2 * A, "m": M, "t": T, "v": M[0], "i": np.array([2, 0]), "b": A > 0,
    "n": np.array([[3, 1, 2], [6, 5, 4]]), "p": M @ M.T + np.eye(4, dtype="f"),
}  # fmt: skip


def given(make: Callable[[Any], Any]) -> dict[str, Any]:
    """Fresh ones for each call: some of the calls end what they are given."""
    return {name: make(array.copy()) for name, array in ARRAYS.items()}


def answer(call: str) -> Any:
    """What the call gives, or the error, which must say what to write."""
    try:
        return eval(call, {**given(phix.to_tensor), "np": np})
    except PhixError as error:
        assert re.search(
            r"write |read |use |leave |has .* axes|needs|must|immutable|dense", str(error)
        ), call
        return error


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, (tuple, list)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, (str, bytes, np.dtype)):
        return str(found) == str(wanted) if isinstance(wanted, np.dtype) else isinstance(
            found, type(wanted))  # fmt: skip
    found, wanted = np.asarray(found), np.asarray(wanted)
    return found.shape == wanted.shape and np.allclose(found, wanted, 1e-4, 1e-5, equal_nan=True)


OF_NUMPY = """
x.shape x.ndim x.size x.dtype x.itemsize x.nbytes x.T x.real x.imag x.flat x.strides x.base
x.reshape(4,3) x.reshape((4,3)) x.reshape(-1) x.ravel() x.flatten() x.transpose() x.transpose(1,0)
x.swapaxes(0,1) x.squeeze() x.sum() x.sum(0) x.sum(axis=1,keepdims=True) x.sum(axis=(0,1))
x.prod() x.mean() x.mean(axis=0) x.std() x.std(axis=1,ddof=1) x.var() x.min() x.max(axis=1)
x.argmin() x.argmax(axis=0) x.ptp() x.cumsum() x.cumsum(axis=1) x.cumprod(0) x.sort() x.argsort()
x.argsort(axis=0) x.partition(2) x.argpartition(1) v.searchsorted(0.) x.nonzero() x.clip(-1,1)
x.clip(min=0) x.round(2) x.astype('float64') x.astype(int) x.astype(np.int32) x.copy()
x.view(np.int32) x.tolist() x.item(3) x.item(1,2) v.item(0) x.tobytes() x.fill(3) x.take([0,2])
x.take([0,2],axis=1) x.put([0],[1]) x.repeat(2) x.repeat(2,axis=0) x.diagonal() m.trace() x.dot(v)
x.all() x.any(axis=0) b.all() x.conj() x.conjugate() n.byteswap() x.dumps() x.choose([1])
i.choose([[1,2],[3,4],[5,6]]) b.compress([True,False,True],axis=0) x.resize(2,6) x.itemset(0,1)
x.newbyteorder() x.setflags() len(x) x[0] x[0,1] x[:,1] x[::-1] x[...,None] x[[0,2]] x[i] x[b]
x[x>0] x[np.array([0,1])] x[1:,::2] x[-1] x[None] x[i,i] x[:,i] x[i][:,i] abs(x) -x +x x+1 1+x x-y
x*2 x/y x//2 x%2 x**2 2**x x@v x@m v@v x==y x!=y x<y x>=0 ~b b&b b|b b^b n<<1 n>>1 divmod(x,2)
float(x[0,0]) int(n[0,0]) bool(b[0,0]) complex(x[0,0]) round(x[0,0],2) x.__array__() np.asarray(x)
np.sin(x) np.add(x,1) np.where(b,x,0) np.concatenate([x,y]) np.stack([x,y]) np.vstack([x,y])
np.hstack([x,y]) np.split(x,3) np.array_split(x,2) np.zeros_like(x) np.ones_like(x)
np.full_like(x,2.) np.dot(x,v) np.matmul(x,v) np.outer(v,v) np.inner(v,v) np.einsum('ij,j->i',x,v)
np.tensordot(x,m,1) np.linalg.norm(x) np.linalg.inv(p) np.linalg.det(p) np.linalg.solve(p,v)
np.linalg.eigh(p)[0] np.linalg.svd(x)[1] np.linalg.qr(m)[1].shape np.linalg.cholesky(p)
np.linalg.lstsq(m,v)[0] np.linalg.pinv(x) np.unique(n) np.sort(x) np.argsort(x)
np.percentile(x,30) np.median(x) np.quantile(x,.3) np.isnan(x) np.isclose(x,y) np.allclose(x,x)
np.array_equal(x,x) np.maximum(x,y) np.minimum(x,0) np.exp(x) np.log(p) np.sqrt(p) np.cumsum(x,1)
np.diff(x) np.gradient(x)[0] np.interp(v,v,v) np.histogram(x)[0] np.bincount(i)
np.digitize(x,[0.]) np.meshgrid(v,v)[0] np.tile(x,2) np.repeat(x,2) np.roll(x,1) np.flip(x)
np.rot90(x) np.pad(x,1) np.expand_dims(x,0) np.squeeze(x) np.moveaxis(t,0,-1) np.swapaxes(x,0,1)
np.broadcast_to(v,(3,4)) np.triu(m) np.tril(m) np.diag(v) np.diag(m) np.trace(m)
np.cross(v[:3],v[1:]) np.kron(m,m) np.argmax(x) np.nonzero(x) np.argwhere(b) np.count_nonzero(b)
np.any(b) np.all(b) np.sign(x) np.floor(x) np.ceil(x) np.round(x,1) np.clip(x,0,1) np.mod(x,2)
np.power(x,2) np.square(x) np.arctan2(x,y) np.hypot(x,y) np.nan_to_num(x) np.convolve(v,v)
np.polyfit(v,v,1) np.cov(x) np.corrcoef(x) np.average(x,axis=0) np.prod(x) np.std(x) np.var(x)
np.ptp(x) np.take(x,[0,1],axis=1) np.take_along_axis(x,x.argsort(1),1)
np.apply_along_axis(np.sum,1,x) np.vectorize(float)(x) np.fft.fft(v) np.real(x) np.angle(x)
np.setdiff1d(n,[1]) np.isin(n,[1]) np.searchsorted(v,0.) np.insert(v,1,2.) np.delete(v,0)
np.append(v,1.) np.array([x,y]) np.array(x) np.shape(x) np.ndim(x) np.size(x) np.iscomplexobj(x)
np.issubdtype(x.dtype,np.floating) np.result_type(x,x) np.copy(x) np.asfortranarray(x)
np.ascontiguousarray(x) np.atleast_2d(v) np.column_stack([v,v]) np.dstack([x,y]) np.block([[x,y]])
np.ravel(x) np.reshape(x,(4,3)) np.transpose(x) np.ix_(i,i)[0] np.select([b],[x])
np.piecewise(x,[b],[1.]) np.lexsort((v,v)) np.partition(v,2) np.trapezoid(v) np.cumprod(v)
np.nansum(x) np.nanmean(x) np.vdot(v,v) np.linalg.matrix_rank(m) np.linalg.matrix_power(m,2)
np.copyto(x,y) np.put(x,0,1) np.fill_diagonal(m,0) np.random.shuffle(v) np.array2string(x) repr(x)
str(x) format(x[0,0],'.2f') f'{x[0,0]:.3f}' sorted(v) max(v) min(v) sum(v)
v.tolist().index(v.tolist()[0])
"""

OF_TORCH = """
x.shape x.dim() x.ndim x.numel() x.nelement() x.is_cuda x.requires_grad x.grad x.T x.mT x.H x.data
x.view(4,3) x.view(-1) x.view(2,-1) x.view_as(y) x.reshape(4,3) x.permute(1,0) x.transpose(0,1)
x.t() x.unsqueeze(0) x.unsqueeze(-1) x.squeeze() x.squeeze(0) x.expand(2,3,4) x.expand(-1,4)
x.expand_as(y) x.repeat(2,1) x.repeat_interleave(2) x.repeat_interleave(2,dim=1) x.flatten()
x.flatten(0,1) t.flatten(1) t.flatten(start_dim=1) x.ravel() x.contiguous() x.is_contiguous()
x.clone() x.detach() x.cpu() x.to('cpu') x.to(device='cpu') x.to(y)
x.float() x.double() x.half() x.bfloat16()
x.int() x.long() x.bool() x.type_as(y) x.numpy() x.tolist() x[0,0].item() x.sum() x.sum(0)
x.sum(dim=1) x.sum(dim=1,keepdim=True) x.sum(-1,keepdim=True) x.mean() x.mean(dim=0) x.mean(1)
x.std() x.std(dim=0) x.var() x.var(dim=1,unbiased=False) x.std(unbiased=False) x.max()
x.max(dim=1) x.max(1)[0] x.max(1).values x.min(dim=0).indices x.amax(dim=1) x.amin(1) x.argmax()
x.argmax(dim=1) x.argmin(-1) x.prod() x.prod(dim=0) x.norm() x.norm(dim=1) x.norm(p=1)
x.norm(2,dim=1) x.logsumexp(dim=1) x.logsumexp(1) x.softmax(dim=1) x.softmax(-1)
x.log_softmax(dim=-1) x.cumsum(dim=1) x.cumsum(0) x.cumprod(dim=0) x.median() x.median(dim=1)
x.mode() x.quantile(.3) x.sort() x.sort(dim=1,descending=True)[0] x.argsort(dim=1)
x.argsort(descending=True) x.topk(2) x.topk(2,dim=0)[0] x.kthvalue(2) x.unique()
x.unique(return_counts=True) x.any() x.any(dim=1) x.all() b.all(dim=0) x.abs() x.neg() x.exp()
x.log() p.log() x.log1p() x.expm1() p.sqrt() p.rsqrt() x.square() x.pow(2) x.sin() x.cos() x.tan()
x.tanh() x.sigmoid() x.relu() x.erf() x.floor() x.ceil() x.round() x.trunc() x.sign()
x.reciprocal() x.clamp(0,1) x.clamp(min=0) x.clamp_min(0) x.clamp_max(1) x.clip(0,1) x.add(y)
x.add(y,alpha=2) x.sub(y) x.mul(2) x.div(y) x.matmul(v) x.mm(m) x.mv(v) t.bmm(t.mT) v.dot(v)
v.outer(v) x.addmm(x,m) x.lerp(y,.5) x.fmod(2) x.remainder(2) x.eq(y) x.ne(0) x.lt(y) x.gt(0)
x.ge(0) x.le(y) x.equal(y) x.allclose(y) x.isclose(y) x.isnan() x.isinf() x.isfinite()
b.logical_not() b.logical_and(b) x.masked_fill(b,0.) x.masked_select(b) x.where(b,y)
x.gather(1,n[:,:2].clip(0,2).long()) x.index_select(0,i) x.index_select(dim=1,index=i)
x.index_add(0,i,x[:2]) x.index_fill(0,i,0.) x.scatter(1,i[None],1.)
x.scatter_add(0,i[None],x[:1,:2]) x.take(i) x.nonzero() x.nonzero(as_tuple=True) x.chunk(2,dim=1)
x.split(2,dim=1) x.split([1,2]) x.unbind(0) x.unbind(dim=1) x.narrow(1,0,2) x.select(0,1)
x.roll(1,0) x.roll(1,dims=1) x.flip(0) x.flip([0,1]) x.fliplr() x.rot90() x.triu() m.tril(-1)
m.diag() v.diag() m.diagonal() m.trace() v.diag_embed() m.inverse() p.det() p.logdet()
p.cholesky() x.cross(x) x.cdist(y) x.new_zeros(2,3) x.new_ones(2) x.new_tensor([1.])
x.new_full((2,),3.) x.fill_(0.) x.zero_() x.add_(1) x.mul_(2) x.copy_(y) x.uniform_() x.normal_()
x.backward() x.requires_grad_() x.retain_grad() x.register_hook(print) x.unfold(1,2,1)
x.movedim(0,1) x.moveaxis(0,1) x.swapaxes(0,1) x.element_size() x.nbytes x.storage() x.stride()
x.data_ptr() x.count_nonzero() i.bincount() x.histc(4) x.hypot(y) x.atan2(y) x.nan_to_num()
x.tile(2,1) x.broadcast_to(2,3,4) x.diff() x.logaddexp(y) x.maximum(y) x.minimum(y) x.erfinv()
p.lgamma() p.digamma() x.frac() x.heaviside(y) x.dist(y) x.renorm(2,0,1) x.ger(v) x.squeeze_()
x.to_dense() x.apply_(abs) x.share_memory_() x.pin_memory() x.type() x.get_device() x.layout
x.is_floating_point() x.is_complex() x.real x.imag x.cov() x.corrcoef() x.aminmax() x.nansum()
x.nanmean() x.nanmedian() x.square_() x.float().sum() x.unflatten(1,(2,2)) x.vsplit(3) x.hsplit(2)
x.tensor_split(2) x.msort() x.adjoint() x.sum_to_size(1,4) x.index_put((i,),v)
x.masked_scatter(b,y) x.expm1_()
"""

OF_PADDLE = """
x.astype('float64') x.cast('int64') x.abs() x.add(y) x.subtract(y) x.multiply(y) x.divide(y)
x.matmul(v) x.mm(m) x.pow(2) x.sqrt() x.rsqrt() x.exp() x.log() x.sum(axis=0)
x.mean(axis=1,keepdim=True) x.max(axis=0) x.min(axis=1) x.argmax(axis=1) x.argmin() x.prod(axis=0)
x.std(axis=0) x.var(axis=0) x.median(axis=1) x.norm() x.norm(p=1,axis=1) x.reshape([4,3])
x.flatten() x.flatten(start_axis=0,stop_axis=1) x.transpose([1,0]) x.transpose(perm=[1,0]) x.t()
x.unsqueeze(0) x.unsqueeze(axis=[0,1]) x.squeeze() x.squeeze(axis=0) x.expand([2,3,4])
x.expand(shape=[2,3,4]) x.expand_as(y) x.tile([2,1]) x.tile(repeat_times=[2,1]) x.gather(i)
x.gather(i,axis=1) x.gather_nd(i[None]) x.scatter(i,x[:2]) x.scatter(i,x[:2],overwrite=False)
x.index_select(i) x.index_select(i,axis=1) x.index_sample(i[:,None][:1].expand(3,1))
x.masked_select(b) x.masked_fill(b,0.) x.nonzero() x.nonzero(as_tuple=True) b.where(x,y)
x.where(x>0,y) x.topk(2) x.topk(k=2,axis=0) x.sort() x.sort(axis=0,descending=True)
x.argsort(axis=1,descending=True) x.split(2,axis=1) x.split([1,2],axis=0) x.chunk(2,axis=1)
x.unbind() x.unstack() x.concat([y]) x.stack([y]) x.clip(0,1) x.clip(min=0.,max=1.) x.equal(y)
x.not_equal(y) x.less_than(y) x.greater_equal(y) x.equal_all(y) x.allclose(y) x.isnan()
x.isfinite() b.logical_and(b) b.logical_not() b.all() b.any(axis=0) x.cumsum(axis=0)
x.cumprod(dim=0) x.numel() x.numpy() x.item(0) x.tolist() x.clone() x.detach() x.cpu() x.cuda()
x.pin_memory() x.place x.stop_gradient x.grad x.gradient() x.clear_grad() x.backward()
x.register_hook(print) x.is_leaf x.name x.persistable x.inplace_version x.set_value(y) x.fill_(1.)
x.zero_() x.add_(y) x.scale(2.) x.scale(2.,1.) x.scale_(2.) x.clip_(0,1) x.reshape_([4,3])
x.flip(0) x.flip([0,1]) x.flip(axis=0) x.roll(1) x.roll(1,axis=0) x.tril() x.triu(1) x.diagonal()
m.trace() m.inverse() p.cholesky() x.dot(v) x.cross(x) x.dist(y,2) x.bmm(x) t.bmm(t.swapaxes(1,2))
x.kron(y) x.tanh() x.sigmoid() x.erf() x.sign() x.round() x.floor() x.ceil() x.floor_divide(y)
x.mod(y) x.remainder(y) x.floor_mod(y) x.maximum(y) x.minimum(y) x.fmax(y) x.logsumexp()
x.logsumexp(axis=1) x.nansum() x.quantile(.5) x.unique() x.unique(return_inverse=True)
x.unique_consecutive() i.bincount() x.histogram() x.moveaxis(0,1) x.strided_slice([0],[0],[2],[1])
x.slice([0],[0],[1]) x.broadcast_to([2,3,4]) x.repeat_interleave(2) x.repeat_interleave(2,axis=1)
x.take_along_axis(i[:,None][:1].expand(3,1),1) x.put_along_axis(i[:,None][:1].expand(3,1),0.,1)
x.lerp(y,.5) x.rot90() x.conj() x.angle() x.increment() x.digamma() x.lgamma() x.trunc() x.frac()
x.rank() x.shape x.ndim x.dim() x.ndimension() x.size x.T x.mT x.element_size() x.is_tensor()
x.is_floating_point() x.is_integer() x.is_empty() x.value() x.to('float64') x.to('cpu')
x.cast('float16') x.astype(x.dtype) x.diff() x.outer(v) x.inner(y) x.mv(v) x.addmm(x,m)
x.vsplit(3) x.as_complex() t.flatten(1) t.flatten(1,2) x.view([4,3]) x.view_as(y) x.numel().item()
x.softmax() x.log_softmax() x.exponential_() x.uniform_() x.normal_() x.bernoulli()
x.multinomial(1) x.index_add(i,0,x[:2]) x.index_put((i,),v) x.bucketize(v.sort()) x.heaviside(y)
x.amax() x.amin(0) x.nanmean() x.kthvalue(2) x.mode() x.deg2rad() n.lcm(n) n.gcd(n) x.atan2(y)
x.expm1() x.logit() x.stanh() x.unfold(1,2,1) x.tensordot(m,1) x.std(unbiased=False) x.cond()
x.eig() p.eigvals() p.eigvalsh() p.qr() p.lu() x.svd() x.pinv() p.solve(v) p.matrix_power(2)
p.det() p.slogdet()
"""

# In place there, and a new tensor here.
OTHERWISE_THAN_NUMPY = {"x.sort()", "x.partition(2)"}
# What NumPy's name means is NumPy's, what both lack is Paddle's: see docs/coming-from.md.
OTHERWISE_THAN_TORCH = {
    "x.transpose(0,1)", "x.repeat(2,1)", "x.std()", "x.var()", "x.max(1)", "x.max(1)[0]",
    "x.median()", "x.nanmedian()", "x.sort()", "x.equal(y)", "x.nonzero()",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_calls_of_numpy_are_right_or_answered() -> None:
    right = 0
    for call in OF_NUMPY.split():
        try:
            wanted = eval(call, {**given(np.array), "np": np})
        except (AttributeError, TypeError, ValueError):
            continue  # an older name
        found = answer(call)
        if not isinstance(found, PhixError) and call not in OTHERWISE_THAN_NUMPY:
            assert same(found, wanted), call
            right += 1
    assert right >= 255


@pytest.mark.filterwarnings("ignore")
def test_calls_of_torch_are_right_or_answered() -> None:
    answers = {call: answer(call) for call in OF_TORCH.split()}
    assert sum(not isinstance(a, PhixError) for a in answers.values()) >= 145
    torch = pytest.importorskip("torch")
    for call, found in answers.items():
        if isinstance(found, PhixError) or call in OTHERWISE_THAN_TORCH:
            continue
        try:
            wanted = eval(call, given(torch.from_numpy))
        except (AttributeError, RuntimeError, TypeError, IndexError):
            continue  # what phix alone has, or torch refuses
        assert same(found, wanted), call


def test_calls_of_paddle_are_right_or_answered() -> None:
    answers = [answer(call) for call in OF_PADDLE.split()]
    assert sum(not isinstance(a, PhixError) for a in answers) >= 170


@pytest.mark.parametrize("name", ["copyto", "put", "place", "putmask", "fill_diagonal"])
def test_what_writes_into_a_tensor_is_refused(name: str) -> None:
    rest = {"copyto": (A,), "put": (0, 1.0), "fill_diagonal": (0.0,)}.get(name, (A > 0, A))
    for call in (
        lambda x: getattr(np, name)(x, *rest),
        phix.jit(lambda x: getattr(np, name)(x, *rest)),
    ):
        with pytest.raises(phix.errors.ArgumentError, match=rf"{name}.*immutable; write x = "):
            call(phix.to_tensor(A))
    array = np.zeros((3, 4), "f")
    np.copyto(array, phix.to_tensor(A))
    np.testing.assert_array_equal(array, A)
